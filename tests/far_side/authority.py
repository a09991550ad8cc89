"""A private authority, and certificates by it."""

import datetime as dt
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_AUTHORITY = "far side"
_NOW = dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Authority:
    """Whoever trusts ``ca_file`` believes its certificates. Lives in a directory of the test's."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def ca_file(self) -> str:
        return str(self.directory / "ca.pem")

    def server(self, *names: str, protocols: tuple[str, ...] = ("h2", "http/1.1")) -> ssl.SSLContext:
        """What a server needs that is one of these names or addresses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pair(*names))
        context.set_alpn_protocols(list(protocols))
        return context

    def pair(self, *names: str) -> Path:
        """A file of a certificate for these names or addresses, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
        certificate = (
            _builder("server", key).add_extension(alternatives, critical=False).sign(self.key, hashes.SHA256())
        )
        path = self.directory / f"{certificate.serial_number}.pem"
        path.write_bytes(_pem(certificate) + _key_pem(key))
        return path


def make(directory: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    basic = x509.BasicConstraints(ca=True, path_length=None)
    authority = Authority(
        directory, key, _builder(_AUTHORITY, key).add_extension(basic, critical=True).sign(key, hashes.SHA256())
    )
    Path(authority.ca_file).write_bytes(_pem(authority.certificate))
    return authority


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(_AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - dt.timedelta(hours=1))
        .not_valid_after(_NOW + dt.timedelta(days=1))
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
