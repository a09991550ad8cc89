"""Lists the references to secrets in a server's credentials."""

from collections.abc import Iterator
from typing import assert_never

from gloveport.model.egress import Basic, Bearer, ClientCredentials, Header, Query, Secret
from gloveport.model.hub import OAuthLogin, Server


def secrets_of(server: Server) -> Iterator[Secret]:
    """List the references of a server's ``auth``. A login's tokens are not among them."""
    for auth in server.auth:
        match auth:
            case Bearer() | Basic() | Header() | Query():
                yield auth.secret
            case ClientCredentials():
                yield auth.client_secret
            case OAuthLogin():
                if auth.client_secret is not None:
                    yield auth.client_secret
            case _:
                assert_never(auth)
