"""Makes token requests of the configured grants: client credentials and refresh tokens."""

from collections.abc import Mapping
from typing import TypeAlias

from gloveport.model.egress import ClientCredentials, RefreshToken
from gloveport.oauth.token_endpoint import Client

Grant: TypeAlias = ClientCredentials | RefreshToken


def client_of(grant: Grant, secret: str) -> Client:
    """Make the client of a grant; without a secret it is a public one."""
    if not secret:
        return Client(id=grant.client_id)
    is_basic = grant.client_auth == "basic"
    return Client(id=grant.client_id, secret=secret, auth="client_secret_basic" if is_basic else "client_secret_post")


def fields_of(grant: Grant, refresh_token: str = "") -> Mapping[str, str]:
    """Make the form fields of a grant's request (RFC 6749, 4.4.2 and 6). Empty settings are not sent."""
    fields = {
        "grant_type": grant.kind.removeprefix("oauth2_"),
        "refresh_token": refresh_token,
        "scope": " ".join(grant.scopes),
        "audience": grant.audience if isinstance(grant, ClientCredentials) else "",
    }
    return {name: value for name, value in fields.items() if value}
