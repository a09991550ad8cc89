"""Registries of Rust, Go and Java for where the public ones are not reached: made of the packages of Debian."""
