"""Connections to servers and programs: sockets with and without TLS, resolved names, checked addresses."""
