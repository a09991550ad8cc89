"""Reaching a server: which addresses are dialled, and who is believed to be whom."""

import os
import socket
import ssl
from ipaddress import ip_address, ip_network
from pathlib import Path

import anyio
import pytest
from tests.far_side.listening import listening

from gloveport.egress.transport import dial
from gloveport.egress.transport.dial import Dialer
from gloveport.egress.transport.route import Route
from gloveport.errors import UpstreamError
from gloveport.policy.hosts.addresses import unmap_address

pytestmark = pytest.mark.anyio
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def greet(stream):
    await stream.send(b"hello")
    await stream.receive()


def answers(*each):
    """A resolver that gives one answer after the other, and how often it was asked."""
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return [ip_address(address) for address in each[min(len(asked), len(each)) - 1]]

    return resolve, asked


def route(port=443, **other):
    return Route(**{"api": "far", "scheme": "http", "host": "api.test", "port": port} | other)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def refusal(code, connecting):
    with pytest.raises(UpstreamError) as caught:
        await connecting
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.2.1",
        "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2001:db8::1",
    ],
)  # fmt: skip
async def test_a_name_that_leads_to_what_is_not_public_is_refused(address):
    """N4: every kind of address that is not global."""
    resolve, _ = answers([address])
    text = await refusal("address_refused", Dialer(resolve).connect(route()))
    dialled = unmap_address(ip_address(address))
    assert f"api.test leads to {dialled}, which is not public" in text
    assert f'[api.far] of the configuration: networks = ["{ip_network(dialled)}"]' in text


async def test_of_a_host_that_no_api_names_the_address_is_not_told():
    """N9: under yolo a program could map the owner's network by its names."""
    resolve, _ = answers(["10.1.2.3"])
    assert "10.1.2.3" not in await refusal("address_refused", Dialer(resolve).connect(route(api="")))


async def test_an_answer_of_good_and_bad_addresses_is_refused_as_a_whole():
    """N4: nobody picks the good one, for the next pick may be the bad one."""
    resolve, _ = answers(["93.184.215.14", "10.0.0.1"])
    await refusal("address_refused", Dialer(resolve).connect(route()))


async def test_what_is_connected_to_is_what_was_checked_also_when_the_name_changes_its_mind():
    """N3 N4: DNS rebinding. The name is resolved once; the next answer is checked anew."""
    resolve, asked = answers(["127.0.0.11"], ["127.0.0.12"])
    async with listening(greet) as place, listening(greet, host="127.0.0.12", port=place.port) as other:
        allowed = route(place.port, networks=(ip_network("127.0.0.11/32"),))
        wire = await Dialer(resolve).connect(allowed)
        assert await wire.receive() == b"hello"
        wire.close()
        assert asked == ["api.test"]
        await refusal("address_refused", Dialer(resolve).connect(allowed))
        assert (place.connections, other.connections) == (1, 0)


async def test_addresses_of_the_operator_are_dialled_and_dns_is_not_asked():
    """N4: the operator can name private hosts on purpose."""
    resolve, asked = answers(["127.0.0.12"])
    async with listening(greet) as place:
        wire = await Dialer(resolve).connect(route(place.port, addresses=(ip_address("127.0.0.11"),)))
        assert await wire.receive() == b"hello"
        wire.close()
    assert asked == []


async def test_an_address_that_an_api_names_is_dialled_and_one_that_a_program_chose_is_checked():
    """N4 N9: what an operator wrote is meant; under yolo an address has to be public."""
    async with listening(greet) as place:
        wire = await Dialer().connect(route(place.port, host="127.0.0.11"))
        assert await wire.receive() == b"hello"
        wire.close()
        await refusal("address_refused", Dialer().connect(route(place.port, host="127.0.0.11", api="")))
        await refusal("address_refused", Dialer().connect(route(place.port, host="::1", api="")))


async def test_this_host_itself_is_refused_by_its_public_address_too_unless_it_is_named(monkeypatch):
    """N4: 127.0.0.1 stands for a public address of this host here: both ends of a connection have it."""
    monkeypatch.setattr(dial, "may_dial", lambda *_: True)
    async with listening(greet, host="127.0.0.1") as place:
        before = descriptors()
        for found in (["127.0.0.1"], ["127.0.0.1", "127.0.0.1"]):
            resolve, _ = answers(found)
            assert "this host itself" in await refusal("address_refused", Dialer(resolve).connect(route(place.port)))
        assert "this host itself" in await refusal(
            "address_refused", Dialer().connect(route(place.port, host="127.0.0.1", api=""))
        )
        for told in ({"networks": LOOPBACK}, {"addresses": (ip_address("127.0.0.1"),)}, {"host": "127.0.0.1"}):
            wire = await Dialer(resolve).connect(route(place.port, **told))
            assert await wire.receive() == b"hello"
            wire.close()
    assert descriptors() <= before


async def test_a_name_in_the_hosts_file_is_checked_like_any_other():
    """N4: the host's own resolver is no way round."""
    await refusal("address_refused", Dialer().connect(route(host="localhost")))


async def test_a_name_without_an_address_is_said_to_have_none():
    """N4: and a resolver's own words are told."""

    async def nobody(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "Name or service not known" in await refusal("name_not_found", Dialer(nobody).connect(route()))
    resolve, _ = answers([])
    await refusal("name_not_found", Dialer(resolve).connect(route()))


async def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch):
    """N4: time limits."""
    monkeypatch.setattr(dial, "RESOLVE_SECONDS", 0.02)

    async def silent(host, port):
        await anyio.sleep_forever()

    assert "resolve api.test:443" in await refusal("upstream_timeout", Dialer(silent).connect(route()))


async def test_where_nobody_listens_the_error_names_host_and_port():
    """N4: refused connections are told at once."""
    text = await refusal("upstream_unreachable", Dialer().connect(route(9, addresses=(ip_address("127.0.0.11"),))))
    assert "api.test:9" in text
    assert "refused" in text


@pytest.fixture
def deaf():
    """A port on 127.0.0.13 where a connection is never made: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.13", 0))
        listener.listen(0)
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.settimeout(0)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for caller in callers:
            caller.close()


async def test_an_address_that_does_not_answer_is_overtaken_by_the_next_one(deaf):
    """N4: happy eyeballs; the first connection wins, the others are closed."""
    resolve, _ = answers(["127.0.0.13", "127.0.0.11"])
    async with listening(greet, port=deaf):
        before = descriptors()
        with anyio.fail_after(5):
            wire = await Dialer(resolve).connect(route(deaf, networks=LOOPBACK))
        assert await wire.receive() == b"hello"
        wire.close()
        with anyio.fail_after(5):
            while descriptors() > before:
                await anyio.sleep(0.002)


async def test_an_address_that_refuses_costs_no_time_and_all_that_refuse_are_an_error():
    """N4: the next attempt begins when the one before has failed."""
    resolve, _ = answers(["127.0.0.12", "::1", "127.0.0.11"])
    networks = (*LOOPBACK, ip_network("::1/128"))
    async with listening(greet) as place:
        wire = await Dialer(resolve).connect(route(place.port, networks=networks))
        assert await wire.receive() == b"hello"
        wire.close()
    await refusal("upstream_unreachable", Dialer(resolve).connect(route(place.port, networks=networks)))


async def test_a_server_that_never_accepts_is_not_waited_for(deaf, monkeypatch):
    """N4: the whole connect has a limit, and leaves no socket."""
    monkeypatch.setattr(dial, "CONNECT_SECONDS", 0.05)
    before = descriptors()
    await refusal("upstream_timeout", Dialer().connect(route(deaf, addresses=(ip_address("127.0.0.13"),))))
    addresses = (ip_address("127.0.0.13"), ip_address("127.0.0.13"))
    await refusal("upstream_timeout", Dialer().connect(route(deaf, addresses=addresses)))
    assert descriptors() == before


async def test_a_server_has_to_prove_its_name(authority, route_to):
    """N3: TLS is verified against the name of the route, and against an address where that is its host."""
    async with listening(greet, authority.server("api.test", "127.0.0.11")) as place:
        for good in ("api.test", "127.0.0.11"):
            wire = await Dialer().dial(route_to(place, scheme="https", host=good))
            assert await wire.receive() == b"hello"
            wire.close()
        for bad in ("other.test", "127.0.0.12"):
            text = await refusal("tls_failed", Dialer().dial(route_to(place, scheme="https", host=bad)))
            assert "can't prove who it is" in text


async def test_an_authority_that_nobody_named_is_not_believed(authority, route_to):
    """N3: the system's authorities hold where the operator names none."""
    async with listening(greet, authority.server("api.test")) as place:
        text = await refusal("tls_failed", Dialer().dial(route_to(place, scheme="https", ca_file=None)))
    assert "ca_file" in text


async def test_a_server_that_speaks_no_tls_or_an_old_one_is_refused(authority, route_to):
    """T3: there is no way back to what is not encrypted."""
    async with listening(greet) as place:
        await refusal("tls_failed", Dialer().dial(route_to(place, scheme="https")))
    old = authority.server("api.test")
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with listening(greet, old) as place:
        await refusal("tls_failed", Dialer().dial(route_to(place, scheme="https")))


async def test_a_file_of_authorities_is_read_anew_when_it_has_changed(authority, route_to, tmp_path: Path):
    """T5: the knob ca_file; a missing or empty file is an error that names it."""
    file = tmp_path / "ca.pem"
    dialer = Dialer()
    async with listening(greet, authority.server("api.test")) as place:
        there = route_to(place, scheme="https", ca_file=str(file))
        assert str(file) in await refusal("tls_failed", dialer.dial(there))
        file.write_text("nothing")
        assert str(file) in await refusal("tls_failed", dialer.dial(there))
        file.write_bytes(Path(authority.ca_file).read_bytes())
        (await dialer.dial(there)).close()


async def test_a_file_of_authorities_that_others_may_change_is_not_believed(authority, route_to, tmp_path: Path):
    """N3 T4: who writes there can be any server. It is judged anew whenever its owner or mode has changed."""
    file = tmp_path / "ca.pem"
    file.write_bytes(Path(authority.ca_file).read_bytes())
    dialer = Dialer()
    async with listening(greet, authority.server("api.test")) as place:
        there = route_to(place, scheme="https", ca_file=str(file))
        (await dialer.dial(there)).close()
        for mode in (0o620, 0o602):
            file.chmod(mode)
            before = descriptors()
            assert "chmod go-w" in await refusal("tls_failed", dialer.dial(there))
            assert descriptors() == before
        file.chmod(0o644)
        (await dialer.dial(there)).close()
        if os.geteuid() == 0:
            os.chown(file, 65_534, -1)
            assert "chown" in await refusal("tls_failed", dialer.dial(there))
        file.unlink()
        os.mkfifo(file, 0o600)
        assert "regular file" in await refusal("tls_failed", dialer.dial(there))


async def test_http_1_is_agreed_on_also_with_who_would_rather_speak_http_2(authority, route_to):
    """N7."""
    async with listening(greet, authority.server("api.test")) as place:
        wire = await Dialer().dial(route_to(place, scheme="https"))
        assert wire._socket.selected_alpn_protocol() == "http/1.1"
        wire.close()
