"""Sandboxes that wait for their program: stocks of them, fork servers, interpreters started ahead."""
