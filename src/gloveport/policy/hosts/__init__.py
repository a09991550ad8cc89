"""Matches hosts, addresses, paths and headers of requests: one spelling for each, and what patterns mean. Pure."""
