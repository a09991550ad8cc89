"""What the tools of the owner ask is what commands of a workspace ask, as far as it is granted, and without secrets."""

import configparser
import tomllib

import pytest
from tests.server.workspace.served import opened

from gloveport.bootstrap.owner_registries import OwnerRegistries, find_owner_registries
from gloveport.environments.registries import PUBLIC_REGISTRY

FILES = {
    ".config/pip/pip.conf": "[global]\nindex-url = https://user:s3cret@py.example/simple\n"
    "extra-index-url = https://more.example/simple\n",
    ".npmrc": "registry=https://npm.example/\n@corp:registry=https://corp.example/npm/\n//npm.example/:_authToken=s3cret\n",
    ".config/go/env": "GOPROXY=https://go.example,direct\nGONOSUMDB=*\nGOFLAGS=-toolexec=evil\n",
    ".cargo/config.toml": '[source.crates-io]\nreplace-with = "corp"\n'
    '[source.corp]\nregistry = "sparse+https://crates.example/index/"\n'
    '[registries.own]\nindex = "sparse+https://crates.example/own/"\ntoken = "s3cret"\n'
    '[registries.other]\nindex = "sparse+https://elsewhere.example/"\n'
    '[build]\nrustc-wrapper = "evil"\n',
    ".gitconfig": '[url "https://git.example/"]\n\tinsteadOf = "git@git.example:"\n'
    '[url "https://t:s3cret@git.example/"]\n\tinsteadOf = x\n[url "ext::sh"]\n\tinsteadOf = y\n'
    "[core]\n\tfsmonitor = evil\n[credential]\n\thelper = s3cret\n",
}
HOSTS = ("py.example", "more.example", "npm.example", "corp.example", "go.example", "git.example", "crates.example")


@pytest.fixture
def home(tmp_path):
    """A home directory with the configuration of tools."""
    for name, text in FILES.items():
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"HOME": str(tmp_path / "home")}


def test_addresses_of_the_owners_tools_are_taken_over_and_nothing_else(home):
    """W4: no password, no token, no program."""
    found = find_owner_registries(home, HOSTS)
    parser = configparser.RawConfigParser()
    parser.read_string(found.files["pip.conf"])
    assert dict(parser["global"]) == {
        "index-url": "https://py.example/simple",
        "extra-index-url": "https://more.example/simple",
    }
    assert tomllib.loads(found.files["uv/uv.toml"])["index"] == [
        {"url": "https://more.example/simple"},
        {"url": "https://py.example/simple", "default": True},
    ]
    assert found.files["npmrc"] == "registry=https://npm.example/\n@corp:registry=https://corp.example/npm/\n"
    assert tomllib.loads(found.files["cargo/config.toml"]) == {
        "source": {
            "crates-io": {"replace-with": "owner"},
            "owner": {"registry": "sparse+https://crates.example/index/"},
        },
        "registries": {"own": {"index": "sparse+https://crates.example/own/"}},
    }
    assert found.variables == {
        "npm_config_globalconfig": "/etc/npmrc",
        "GOPROXY": "https://go.example,direct",
        "GONOSUMDB": "*",
    }
    assert found.gitconfig == '[url "https://git.example/"]\n\tinsteadOf = "git@git.example:"\n'
    assert not {word for word in ("s3cret", "evil", "ext::") if word in str(found)}


def test_what_is_not_granted_is_not_asked(home):
    """W4: of the indexes of one tool all or none, for each has names that the others lack."""
    assert find_owner_registries(home, ()) == OwnerRegistries()
    assert "pip.conf" not in find_owner_registries(home, {"py.example"}).files
    assert find_owner_registries({}, HOSTS) == OwnerRegistries()
    text = find_owner_registries(home, {"corp.example"}).files["npmrc"]
    assert text.startswith(f"registry={PUBLIC_REGISTRY}/\n@corp:registry=")


def test_what_go_is_told_of_modules_counts_for_its_public_proxy_too():
    """W4: a checksum database of the owner's own, say."""
    environ = {"GOSUMDB": "sum.example+1+key", "GOFLAGS": "-toolexec=evil"}
    assert find_owner_registries(environ, {"proxy.golang.org"}).variables == {"GOSUMDB": "sum.example+1+key"}
    assert find_owner_registries(environ, HOSTS).variables == {}
    assert find_owner_registries({**environ, "GOPROXY": "off"}, {"proxy.golang.org"}).variables == {}


def test_a_line_can_not_end_in_an_address(tmp_path):
    """W4: what is written to one file of ours is one line of it."""
    (tmp_path / ".npmrc").write_text("registry=https://npm.example/\u2028x\n")
    text = '[url "https://git.example/"]\n\tinsteadOf = "a\\n[core]\\n\\tfsmonitor = x"\n'
    (tmp_path / ".gitconfig").write_text(text)
    environ = {"HOME": str(tmp_path), "GOPROXY": "https://go.example/\nx", "PIP_INDEX_URL": "https://py.example/\x1bx"}
    found = str(find_owner_registries(environ, HOSTS))
    assert not {word for word in ("fsmonitor", "u2028", "x1b", "GOPROXY", "/x") if word in found}


async def test_the_tools_of_a_command_read_what_their_owner_says(home, tmp_path):
    """W4: and what the command says counts before it."""
    api = {"description": "mirrors", "hosts": [*HOSTS], "rules": [{"action": "allow"}]}
    async with opened(tmp_path, tables={"api": {"mirrors": api}}, environ=home, hosts=[*HOSTS]) as served:
        said = await served.out(
            "test -s /etc/uv/uv.toml && python3 -m pip config list; npm config get registry @corp:registry;"
            " echo $GOPROXY; grep -A1 source.owner /.cargo/config.toml; git ls-remote --get-url git@git.example:x;"
            " PIP_INDEX_URL=https://mine.example python3 -m pip config list"
        )
    assert "global.index-url='https://py.example/simple'" in said
    assert ":env:.index-url='https://mine.example'" in said
    assert {"registry=https://npm.example/", "@corp:registry=https://corp.example/npm/"} <= {*said.splitlines()}
    assert 'registry = "sparse+https://crates.example/index/"' in said.splitlines()
    assert {"https://go.example,direct", "https://git.example/x"} <= {*said.splitlines()}
