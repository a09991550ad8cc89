"""The authority that sandboxes trust: it vouches for every name on the proxy's side of a program's TLS sessions.

It is made anew by each server and lives in its memory alone. What it signs is good for nothing but this server's own
sandboxes, so there is no key on a disk that somebody could take.
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

from gloveport.egress.wire import Session

_MOST_NAMES = 1024
_LIFETIME = dt.timedelta(days=3650)
_CLOCK_SKEW = dt.timedelta(days=1)
_MOST_OF_A_COMMON_NAME = 64


class Authority:
    """A certificate authority in memory.

    Attributes:
        certificate: Its certificate, PEM.
        context: TLS settings of a server that is a host; remembered for many hosts.
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())  # of all leaves: they have the same keeper
        self._root = self._made_root()
        self.certificate = self._root.public_bytes(serialization.Encoding.PEM).decode()
        self.context = lru_cache(_MOST_NAMES)(self._context)

    def _context(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # nobody comes back to a sandbox that is used once
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = Session
        context.sni_callback = _remember
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        leaf = self._leaf(host).public_bytes(serialization.Encoding.PEM)
        with FileIO(os.memfd_create("leaf", os.MFD_CLOEXEC), "w") as memory:  # the only input that OpenSSL takes here
            memory.write(key + leaf)
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
        return context

    def _made_root(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gloveport")])
        usage = _usage(signs_certificates=True)
        return (
            _builder(name, name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _leaf(self, host: str) -> x509.Certificate:
        key = self._leaf_key.public_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:_MOST_OF_A_COMMON_NAME])])
        return (
            _builder(name, self._root.subject, key)
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _remember(session: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
    if isinstance(session, Session):
        session.asked_name = name


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
