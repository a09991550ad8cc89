"""Configuration files: where they are, which of them count, who may have written them, and the line of every key."""
