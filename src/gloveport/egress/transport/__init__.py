"""Connections to servers and programs: sockets with and without TLS, names looked up, addresses checked."""
