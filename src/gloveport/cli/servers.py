"""``gloveport servers``: lists the other MCP servers, logs in to them, reviews and accepts their tools.

Those servers wrote the shown texts, so all of them are escaped for the terminal.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.cli.config_loading import load_config
from gloveport.cli.folded_lines import echo_lines
from gloveport.cli.options import AsJson, ConfigOption, Yes, confirm, escape_unencodable, recording
from gloveport.errors import ConfigError

if TYPE_CHECKING:
    from gloveport.config import Config
    from gloveport.hub.credentials.login_desk import LoginDesk
    from gloveport.hub.credentials.login_storage import Login, Logins
    from gloveport.hub.pins import Offer, Pins
    from gloveport.model.hub import Server
    from gloveport.model.json_value import JsonValue

app = typer.Typer(no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the configuration; see `list`.")]


@app.callback()
def servers() -> None:
    """See what other MCP servers offer, accept what has changed, and log in to those that want it."""
    escape_unencodable()


@app.command("list")
def list_(config: ConfigOption = None, as_json: AsJson = False) -> None:
    """Print each server, how it is reached, whether somebody is logged in, and how many tools are accepted."""
    loaded = load_config(config)
    rows = [_row(name, server, loaded) for name, server in sorted(loaded.servers.items())]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif not rows:
        typer.echo("no server is configured; `gloveport import` takes over those of other clients")
    else:
        widths = [max(len(str(row[key])) for row in rows) for key in ("name", "reached", "login")]
        for row in rows:
            columns = (
                str(row[key]).ljust(width) for key, width in zip(("name", "reached", "login"), widths, strict=True)
            )
            typer.echo("  ".join((*columns, _tools(row))))


@app.command()
def login(
    name: Name,
    config: ConfigOption = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser, where there is one here.")] = True,
) -> None:
    """Log in to a server with the browser. Programs call its tools from then on, until the login is ended there."""
    import anyio

    from gloveport.config import environ_outside

    loaded = load_config(config)
    open_page = functools.partial(_print_and_open, environ_outside(loaded, os.environ)["PATH"])
    desk, server = _open_desk(name, loaded, open_page if browser else _print_url)
    anyio.run(desk.login, name, server)
    typer.echo(f"logged in to {name}")


@app.command()
def logout(name: Name, config: ConfigOption = None) -> None:
    """Forget the login to a server, and end it there where that is offered."""
    import anyio

    desk, server = _open_desk(name, load_config(config), _print_url)
    outcome = anyio.run(desk.logout, name, server)
    typer.echo(
        {
            "nobody": f"nobody was logged in to {name}",
            "forgotten": f"logged out of {name} here; the server has not been told, or did not want to know",
            "revoked": f"logged out of {name}",
        }[outcome]
    )


@app.command()
def review(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of one server. Default: all.")] = None,
    config: ConfigOption = None,
) -> None:
    """Print the tools that are held back, because they are new or say something else than what was accepted."""
    loaded = load_config(config)
    found = False
    for each in sorted(loaded.servers) if name is None else [name]:
        server = _find(each, loaded)
        if (offer := _pins().held_offer(each)) is not None:
            echo_lines(_render_review(each, server, offer, None))
            found = True
    typer.echo("accept them with: gloveport servers accept NAME [TOOL...]" if found else "nothing is held back")


@app.command()
def accept(
    name: Name,
    tools: Annotated[list[str] | None, typer.Argument(metavar="[TOOL]...", help="Default: all that are held.")] = None,
    config: ConfigOption = None,
    yes: Yes = False,
) -> None:
    """Accept tools of a server that are held back, as they are printed now."""
    server, pins = _find(name, load_config(config)), _pins()
    offer = pins.held_offer(name)
    if offer is None:
        raise ConfigError(f"nothing of the server {name} is held back", hint="there is nothing to accept")
    lines = [*_render_review(name, server, offer, tools)]
    echo_lines(lines)
    if not yes:
        confirm(f"accept this, all {len(lines)} lines of it?")  # the first may be scrolled off
    named: dict[str, JsonValue] = {
        tool.name: tool.digest for tool in (*offer.new, *offer.changed) if not tools or tool.name in tools
    }
    with recording(config) as record:
        pins.accept(name, offer, tools)  # refuses what has changed since it was printed
        record("server.tools_accepted", {"server": name, "first_sight": False, "tools": named})
    typer.echo(f"accepted: {name}")


def _find(name: str, config: "Config") -> "Server":
    all_servers = config.servers
    if name not in all_servers:
        listed = ", ".join(sorted(all_servers)) or "none"
        raise ConfigError(f"there is no server {name!a}", hint=f"the configuration has: {listed}")
    return all_servers[name]


def _open_desk(name: str, config: "Config", show: Callable[[str], None]) -> "tuple[LoginDesk, Server]":
    import ssl

    from gloveport.config import environ_outside
    from gloveport.forward_proxy.forward_proxy import ForwardProxy
    from gloveport.hub.credentials.login_desk import LoginDesk
    from gloveport.secrets.sources import Sources
    from gloveport.secrets.vault import Vault

    server = _find(name, config)
    try:
        tls = ssl.create_default_context(cafile=server.ca_file)
    except OSError as error:
        raise ConfigError(f"ca_file can't be read: {error.strerror or error}", hint="name a PEM file") from error
    sources = Sources(environ_outside(config, os.environ))
    proxy = ForwardProxy(settings=config.proxy, vault=Vault(sources))
    return LoginDesk(logins=_logins(config), sources=sources, tls=tls, proxy=proxy, show=show), server


def _logins(config: "Config") -> "Logins":
    from gloveport.config import environ_outside, state_directory
    from gloveport.hub.credentials.login_storage import Logins

    return Logins(directory=state_directory(os.environ) / "oauth", environ=environ_outside(config, os.environ))


def _pins() -> "Pins":
    from gloveport.config import state_directory
    from gloveport.hub.pins import Pins

    return Pins(state_directory(os.environ) / "servers")


def _print_url(url: str) -> None:
    from urllib.parse import parse_qs, urlsplit

    from gloveport.config.toml_text import printable

    typer.echo(f"open this page in a browser, and say yes there:\n\n  {printable(url, limit=sys.maxsize)}\n")
    port = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0]).port
    typer.echo(f"if the browser is on another machine, first run there: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE")


def _print_and_open(path: str, url: str) -> None:
    """Print the page, and open it with a browser along a PATH on which nothing lies that commands can write."""
    import webbrowser

    _print_url(url)
    os.environ["PATH"] = path  # the module, and the scripts that it starts, look nowhere else
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):  # without, a text browser may take this terminal
        webbrowser.open(url)


def _row(name: str, server: "Server", config: "Config") -> dict[str, object]:
    from gloveport.hub.pins import identity_of

    accepted = _pins().load(name, identity_of(server))
    held_offer = _pins().held_offer(name)
    return {
        "name": name,
        "active": server.active,
        "reached": _name_place(server),
        "login": _login_of(name, server, config),
        "tools": None if accepted is None else len(accepted),
        "held_back": 0 if held_offer is None else len(held_offer.new) + len(held_offer.changed),
    }


def _tools(row: dict[str, object]) -> str:
    if not row["active"]:
        return "off"
    tools = "no tools known yet" if row["tools"] is None else f"{row['tools']} tools"
    return f"{tools}, {row['held_back']} held back" if row["held_back"] else tools


def _name_place(server: "Server") -> str:
    """Name a server's program or host, and no more of its command or URL, which may hold a key."""
    from urllib.parse import urlsplit

    from gloveport.config.toml_text import printable

    if server.command:
        return printable(server.command[0], limit=60)
    url = urlsplit(server.url)
    return printable(f"{url.scheme}://{url.netloc}", limit=60)


def _login_of(name: str, server: "Server", config: "Config") -> str:
    import anyio

    from gloveport.model.hub import OAuthLogin

    oauth_logins = [auth for auth in server.auth if isinstance(auth, OAuthLogin)]
    if not oauth_logins:
        return "-"
    stored_login = anyio.run(_logins(config).of(name, server.url, oauth_logins[0].tokens).load)
    return "needed" if stored_login is None else _until(stored_login)


def _until(stored_login: "Login") -> str:
    if stored_login.refresh_token or stored_login.expires is None:
        return "logged in"
    end = datetime.fromtimestamp(stored_login.expires, UTC)
    return f"logged in until {end:%Y-%m-%d %H:%M} UTC" if end > datetime.now(UTC) else "needed"


def _render_review(name: str, server: "Server", offer: "Offer", only: Sequence[str] | None) -> Iterator[str]:
    """Render every difference of the held-back tools."""
    from gloveport.hub.pins import differences, identity_of
    from gloveport.untrusted_text import quote

    before = {tool.name: tool for tool in _pins().load(name, identity_of(server)) or ()}
    for kind, tools in (("new", offer.new), ("changed", offer.changed)):
        for tool in tools:
            if only is None or tool.name in only:
                yield f"{name}: {kind}: {quote(tool.name)}"
                yield from (f"  {line}" for line in differences(before.get(tool.name), tool))
                yield ""
    if only is None:
        yield from (f"{name}: no longer offered: {quote(tool.name)}" for tool in offer.missing)
