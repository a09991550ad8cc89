"""Matches hosts, addresses, paths and headers of requests, each in one canonical spelling. Pure."""
