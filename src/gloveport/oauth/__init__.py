"""OAuth 2.0 client (RFC 6749): requests to token endpoints, and tokens that are renewed in time."""
