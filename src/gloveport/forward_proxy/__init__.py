"""The HTTP proxy that this host has to use: for whom it is asked, and how the server's own clients go through it."""
