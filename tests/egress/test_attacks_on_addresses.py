"""Programs and name servers that try to lead the proxy to what is not public: what is dialled is what was checked."""

import contextlib
import dataclasses
import textwrap
from collections.abc import Sequence
from ipaddress import ip_address

import pytest
from tests.egress.attacker import PRELUDE
from tests.far_side.hostile import hostile, whole
from tests.far_side.listening import listening

from gloveport.egress.http.connection_pool import ConnectionPool

pytestmark = pytest.mark.anyio

PRIVATE = (
    *(
        "127.0.0.1",
        "127.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "0.0.0.0",
    ),
    *("192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1"),
    *("::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "fe80::1"),
    *("fec0::1", "ff02::1", "2002:7f00:1::", "2001:0:7f00:1::", "100::1", "2001:db8::1"),
)


@dataclasses.dataclass
class Names:
    """A name server that answers each time what is next; the last answer again and again."""

    answers: dict[str, list[Sequence[str]]]
    asked: list[str] = dataclasses.field(default_factory=list)

    async def resolve(self, host: str, port: int):  # noqa: ARG002 - a Resolve
        self.asked.append(host)
        left = self.answers.get(host)
        if left is None:
            raise OSError(f"{host} is not known")
        return [ip_address(address) for address in (left.pop(0) if len(left) > 1 else left[0])]


@pytest.fixture
def resolving(world_of):
    """Serve a configuration under which names lead where this name server says."""

    @contextlib.asynccontextmanager
    async def serve(names: Names, **config):
        async with world_of(**config) as world:
            gateway = world.engine.gateway
            gateway.upstreams = ConnectionPool(gateway.tasks, names.resolve)
            yield world

    return serve


async def test_under_yolo_nothing_is_reached_that_is_not_public(resolving):
    """N4, N9, P20: whatever a public name leads to, alone or beside a public address; and no address by itself."""
    names = {f"n{number}.test": [[address]] for number, address in enumerate(PRIVATE)}
    names |= {f"m{number}.test": [["93.184.215.14", address]] for number, address in enumerate(PRIVATE)}
    names |= {"localhost": [["127.0.0.1"]], "metadata.google.internal": [["169.254.169.254"]]}
    program = f"""
    addresses = {PRIVATE!r}
    forms = [f"[{{address}}]" if ":" in address else address for address in addresses] + [
        "0x7f.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "0177.0.0.1", "017700000001", "0", "127.0.0.1.",
        "0x7f.0.0.1.", "[::1%25lo]", "[fe80::1%251]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::1", "::1",
        "[127.0.0.1]", "1.1.1.1", "[2606:4700:4700::1111]", "%31%32%37.0.0.1", "127.0.0.1%00.n.test",
        "\\xb9\\xb2\\xb7.0.0.1", "127\\u30020\\u30020\\u30021",
    ]
    def at(host):
        def attempt():
            text = f"GET http://{{host}}/ HTTP/1.1\\r\\nHost: {{host}}\\r\\nConnection: close\\r\\n\\r\\n"
            return asked(plain(), text.encode())
        return attempt
    def within(host, port, sni):
        return lambda: asked(tunneled(host, port, sni), request(host))
    attempts = {{name: at(name) for name in {[*names]!r}}} | {{form: at(form) for form in forms}}
    attempts |= {{
        "port": at("n0.test:8080"),
        "tls": within("n0.test", 443, ""),
        "plain": within("n5.test", 80, None),
        "address-in-tunnel": within("127.0.0.1", 443, None),
        "ssh": within("n0.test", 22, None),
    }}
    together(attempts)
    """
    name_server = Names(names)
    async with resolving(name_server, egress={"yolo": True}) as world:
        said = await world.value("python", PRELUDE + textwrap.dedent(program))
    by_name = {name: said.pop(name) for name in names}
    assert set(by_name.values()) == {"403 address_refused"}
    assert (said.pop("tls"), said.pop("plain")) == ("403 address_refused", "403 address_refused")
    assert (said.pop("address-in-tunnel"), said.pop("ssh")) == ("403 names_disagree", "403 names_disagree")
    codes = {"403 address_not_granted", "400 bad_request", "400", "403 host_not_granted"}
    assert {form: code for form, code in said.items() if code not in codes} == {}
    assert set(name_server.asked) <= set(names), "what is no name is not looked up"


async def test_a_name_that_is_bound_anew_leads_nowhere_else(resolving, authority):
    """N4: the address that was checked is dialled; another one is checked again, and mixed ones are refused."""
    async with (
        hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        listening(lambda stream: stream.receive(), None, "127.0.0.1", server.place.port) as inner,
    ):
        good, bad = server.place.host, "127.0.0.1"
        names = Names({"alpha.test": [[good], [bad], [good, bad], [bad, good], ["::ffff:127.0.0.1"], [], [good]]})
        server.answers["/"] = lambda _: whole(b"ok", b"Connection: close")
        api = {
            "hosts": [f"alpha.test:{server.place.port}"],
            "networks": [f"{good}/32"],
            "ca_file": authority.ca_file,
            "auth": [{"kind": "bearer", "secret": "env:ALPHA_KEY"}],
        }
        async with resolving(names, api={"alpha": api}) as world:
            said = await world.value(
                "python",
                PRELUDE
                + f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
[code_of(asked(direct("alpha.test", port), request(place))) for _ in range(7)]
""",
            )
    refused = "403 address_refused"
    assert said == ["200", refused, refused, refused, refused, "502 name_not_found", "200"]
    assert len(names.asked) == 7, "asked once for each connection: what was checked is what was dialled"
    assert inner.connections == 0


async def test_a_redirect_is_judged_like_any_request(world_of, api_at, authority):
    """N4: to metadata, to loopback in every spelling, to a port, to plain HTTP; by clients that follow."""
    async with (
        hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        listening(lambda stream: stream.receive(), None, "127.0.0.1") as inner,
    ):
        targets = (
            "http://169.254.169.254/latest/meta-data/",
            f"http://127.0.0.1:{inner.port}/",
            f"http://localhost:{inner.port}/",
            f"http://[::1]:{inner.port}/",
            f"http://[::ffff:127.0.0.1]:{inner.port}/",
            f"http://0x7f.1:{inner.port}/",
            f"http://2130706433:{inner.port}/",
            f"http://0:{inner.port}/",
            f"http://127.0.0.11:{server.place.port}/",
            f"http://alpha.test:{server.place.port}/stolen",
            "https://alpha.test:8443/stolen",
            "https://evil.test/",
            "file:///etc/passwd",
        )
        for number, target in enumerate(targets):
            server.answers[f"/{number}"] = lambda _, target=target: whole(
                b"", b"Location: " + target.encode(), status=b"302 Found"
            )
        async with world_of(api={"alpha": api_at(server.place.port)}) as world:
            python = await world.value(
                "python",
                f"""
                import urllib.request
                from concurrent.futures import ThreadPoolExecutor

                def follow(number):
                    try:
                        url = f"https://alpha.test:{server.place.port}/{{number}}"
                        return urllib.request.urlopen(url, timeout=5).status
                    except urllib.error.HTTPError as error:
                        return error.code
                    except OSError as error:
                        return type(error).__name__

                with ThreadPoolExecutor(13) as pool:
                    said = list(pool.map(follow, range({len(targets)})))
                said
                """,
            )
            shell = await world.value(
                "shell",
                f"""
                for number in $(seq 0 {len(targets) - 1}); do
                    url=https://alpha.test:{server.place.port}/$number
                    curl -sL --max-time 5 -o /dev/null -w '%{{http_code}} ' $url || true
                done
                """,
            )
    assert [said for said in python if said == 200] == []
    assert "200" not in shell
    assert len(shell.split()) == len(targets)
    assert {heard.target for heard in server.heard} == {f"/{number}" for number in range(len(targets))}
    assert inner.connections == 0


async def test_yolo_sends_no_key_anywhere_new(resolving, authority):
    """N9: a host that an API names keeps its own rules and terms under yolo; others get nothing of the owner's."""
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        api = {
            "hosts": [f"alpha.test:{server.place.port}"],
            "addresses": [server.place.host],
            "ca_file": authority.ca_file,
            "auth": [{"kind": "bearer", "secret": "env:ALPHA_KEY"}],
            "rules": [{"action": "allow", "paths": ["/open"]}],
        }
        names = Names({"alpha.test": [["93.184.215.14"]], "other.test": [["10.0.0.1"]]})
        async with resolving(names, api={"alpha": api}, egress={"yolo": True}) as world:
            said = await world.value(
                "python",
                PRELUDE
                + f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
together({{
    "open": lambda: asked(direct("alpha.test", port), request(place, "/open")),
    "closed": lambda: asked(direct("alpha.test", port), request(place, "/closed")),
    "other-port": lambda: asked(tunneled("alpha.test", 443), request("alpha.test")),
    "plain": lambda: asked(plain(), request("alpha.test", "http://alpha.test/")),
    "host": lambda: asked(tunneled("other.test", 443), request("alpha.test")),
    "other": lambda: asked(tunneled("other.test", 443), request("other.test")),
}})
""",
            )
            other = "code_of(asked(plain(), request('x.test', 'http://x.test/')))"
            narrowed = await world.run("python", PRELUDE + other, apis=["alpha"])
    assert said == {
        "open": "200",
        "closed": "403 method_or_path_not_allowed",
        "other-port": "403 port_not_granted",
        "plain": "403 plain_http_not_granted",
        "host": "403 names_disagree",
        "other": "403 address_refused",
    }
    assert narrowed.value == "403 host_not_granted"
    assert [heard.target for heard in server.heard] == ["/open"]
