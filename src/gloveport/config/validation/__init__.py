"""One value against its type: every wrong key at once, each with a problem and a hint in words."""
