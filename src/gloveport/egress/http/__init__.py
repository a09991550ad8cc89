"""HTTP/1.1 read and written strictly: heads, bodies, content encodings, and both ends of a connection."""
