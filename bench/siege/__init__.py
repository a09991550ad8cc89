"""Hostile runs against a real server, while an honest caller and probes of the host watch what they cost others."""
