"""A door of one execution: sockets on which its programs are answered, and on which nobody else can speak."""
