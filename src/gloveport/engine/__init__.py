"""Runs programs: one execution from request to result, sessions, and runs that outlive their requests."""
