"""Ends the process of a server on a signal, and logs where its event loop is stuck."""
