"""Skills: programs that are kept under a name, as directories that any client of Agent Skills can read."""
