"""OAuth 2.0 as a client (RFC 6749): what a token endpoint is asked and answers, and tokens that are renewed in time."""
