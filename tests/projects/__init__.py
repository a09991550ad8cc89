"""Real projects, worked on through the tools of a workspace alone: ``make projects``."""
