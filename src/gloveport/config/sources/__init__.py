"""The files that count: where they are, who may have written them, their TOML with the line of every key."""
