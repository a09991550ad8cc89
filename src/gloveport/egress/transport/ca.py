"""The certificate authority that sandboxes trust: the proxy ends programs' TLS for every name with its certificates.

Each server makes its own and holds it in memory alone, so that no key on a disk can be stolen. Nothing but this
server's sandboxes trusts it.
"""

import datetime as dt
import ipaddress
import os
import ssl
from functools import lru_cache
from io import FileIO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gloveport.egress.transport.stream import SniSocket

_MOST_NAMES = 1024
_ALWAYS = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
"""Validity of all certificates, which end with the server: a clock may be years wrong when it starts, and set later."""
_MOST_OF_A_COMMON_NAME = 64


class CertificateAuthority:
    """A certificate authority in memory.

    Attributes:
        certificate: The authority's certificate, PEM.
        context: Returns the TLS context of a server for a host name, cached for many hosts.
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())  # one for all leaves, which are all held here
        self._root = _certificate("Gloveport", self._key).sign(self._key, hashes.SHA256())
        self.certificate = self._root.public_bytes(serialization.Encoding.PEM).decode()
        self.context = lru_cache(_MOST_NAMES)(self._context)

    def _context(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # a sandbox is used once, so no session is resumed
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = SniSocket
        context.sni_callback = _keep_asked_name
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        leaf = self._leaf(host).public_bytes(serialization.Encoding.PEM)
        with FileIO(os.memfd_create("leaf", os.MFD_CLOEXEC), "w") as memory:  # load_cert_chain reads only files
            memory.write(key + leaf)
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
        return context

    def _leaf(self, host: str) -> x509.Certificate:
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        return (
            _certificate(host[:_MOST_OF_A_COMMON_NAME], self._leaf_key, self._root.subject)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _keep_asked_name(session: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
    if isinstance(session, SniSocket):
        session.asked_name = name


def _certificate(
    common_name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name | None = None
) -> x509.CertificateBuilder:
    """Make an unsigned certificate; without an issuer, that of a self-signed authority."""
    (begin, end), is_root = _ALWAYS, issuer is None
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = {**dict.fromkeys((*unused, "encipher_only", "decipher_only"), False), "digital_signature": not is_root}
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=0 if is_root else None), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=is_root, crl_sign=is_root, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
