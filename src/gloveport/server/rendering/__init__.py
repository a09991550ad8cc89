"""Renders results, errors and lists, as text for a model and as fields for programs."""
