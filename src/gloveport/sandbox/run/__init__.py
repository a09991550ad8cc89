"""One program in a sandbox that is ready: its streams, its limits, its report and the verdict."""
