"""The authority that sandboxes trust."""

import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from gloveport.egress.transport.ca import CertificateAuthority

NAME = "alpha.test"


@pytest.fixture(scope="module")
def authority():
    return CertificateAuthority()


@pytest.fixture(scope="module")
def leaf(authority):
    """The certificate that a program gets from the server of a name."""
    context = ssl.create_default_context(cadata=authority.certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=NAME)
    server = authority.context(NAME).wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    client.do_handshake()
    return x509.load_der_x509_certificate(client.getpeercert(binary_form=True))


@pytest.mark.parametrize("year", [1970, 2010, 2026, 2060, 9999])
def test_programs_trust_its_certificates_whatever_the_clock_says(authority, leaf, year):
    """A server may start before its host has the time from the network."""
    root = x509.load_pem_x509_certificate(authority.certificate.encode())
    verifier = PolicyBuilder().store(Store([root])).time(datetime(year, 1, 2, tzinfo=UTC))
    assert verifier.build_server_verifier(x509.DNSName(NAME)).verify(leaf, []) == [leaf, root]
