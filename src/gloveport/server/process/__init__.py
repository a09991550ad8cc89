"""Ends the process of a server on a signal, and tells where its event loop stands still."""
