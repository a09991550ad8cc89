"""Decides: what a request is granted, whether an action is allowed, and what a person is asked."""
