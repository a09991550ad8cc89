"""Runs one program in a built sandbox: its streams, its limits, its report and the verdict."""
