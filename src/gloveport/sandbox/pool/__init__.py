"""The sandbox pool: stocks of sandboxes that wait for their program, fork servers, prestarted interpreters."""
