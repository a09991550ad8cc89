"""What this host offers to sandboxes, and what it enforces."""
