"""Describes the network of a sandbox: its doors, the granted names, and the authority to trust. Pure."""

import base64
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address

from gloveport.late_libraries import pkcs12, serialization, x509
from gloveport.model.egress import Egress, Placeholder
from gloveport.policy.hosts.authorities import DEFAULT_PORTS, exact_places
from gloveport.sandbox.plan import Network, TextFile

PROXY = ("127.0.0.2", 3128)
"""Address and port of the proxy door."""

STAND_IN = "added-by-gloveport"
"""The text that programs find in place of a credential that their libraries demand."""

_FIRST_NAME = IPv4Address("127.64.0.1")
_ANY = "0.0.0.0"  # noqa: S104 - of the sandbox's own namespace, where there is nothing but its loopback
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_JAVA_STORE = "/etc/ssl/certs/java/cacerts"
"""The default trust store of Debian's Java; that of others is told by an option."""

# aiohttp opens a WebSocket only through the proxy of the ws or wss variable.
_PROXIED = (
    *("HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY"),
    *("http_proxy", "https_proxy", "ws_proxy", "wss_proxy"),
)
_NOT_PROXIED = ("NO_PROXY", "no_proxy")
# For Python and other users of OpenSSL, requests, curl, git, Deno, Node, pip, AWS's and Google's libraries, cargo.
_TRUST = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "NODE_EXTRA_CA_CERTS"),
    *("PIP_CERT", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "CARGO_HTTP_CAINFO"),
)
# Not JAVA_TOOL_OPTIONS: every Java program prints a line about it at its start.
_JAVA_OPTIONS = ("MAVEN_OPTS", "GRADLE_OPTS")


def network_of(egress: Egress, certificate: str) -> Network:
    """Make the network of every sandbox under this policy; without any destination there is none. ``certificate`` is
    the certificate authority's, PEM. Sandboxes trust no other: all TLS ends at the door.
    """
    if not leads_out(egress):
        return Network()
    active = {name: api for name, api in egress.apis.items() if api.active}
    ports = {*DEFAULT_PORTS.values(), *(place.port for place in exact_places(egress))}
    return Network(
        hosts={name: address for address, name in names_of(egress).items()},
        doors=(PROXY, *((_ANY, port) for port in sorted(ports - {PROXY[1]}))),
        env={
            **dict.fromkeys(_PROXIED, f"http://{PROXY[0]}:{PROXY[1]}"),
            **dict.fromkeys(_NOT_PROXIED, "localhost,127.0.0.1,::1"),
            **dict.fromkeys(_TRUST, _BUNDLE),
            **dict.fromkeys(_JAVA_OPTIONS, f"-Djavax.net.ssl.trustStore={_JAVA_STORE}"),
            **{name: STAND_IN for api in active.values() for name in api.stand_ins},
        },
        files=(TextFile(path=_BUNDLE, text=certificate), _java_store(certificate)),
        placeholders=tuple(auth.name for api in active.values() for auth in api.auth if isinstance(auth, Placeholder)),
    )


@lru_cache(maxsize=4)
def _java_store(certificate: str) -> TextFile:
    """Make a Java trust store with the certificate, without a password."""
    certificates = x509.load_pem_x509_certificates(certificate.encode())
    trusted = [pkcs12.PKCS12Certificate(one, b"gloveport") for one in certificates]
    store = base64.b64encode(pkcs12.serialize_java_truststore(trusted, serialization.NoEncryption()))
    return TextFile(path=_JAVA_STORE, text=store.decode(), is_base64=True)


def leads_out(egress: Egress) -> bool:
    """Whether the policy has any destination."""
    return egress.yolo or any(api.active for api in egress.apis.values())


def names_of(egress: Egress) -> Mapping[str, str]:
    """Map the loopback addresses in the sandbox to the granted names."""
    names = sorted({place.host for place in exact_places(egress)})
    return {str(_FIRST_NAME + number): name for number, name in enumerate(names)}
