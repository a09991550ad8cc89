"""What concerns the whole process of a server: signals to end, and an event loop that stands still."""
