"""``gloveport``, the entry point: Ctrl-C while the rest is imported ends it silently."""


def main() -> None:
    """Run the command line. Exit codes: see ``cli.main``."""
    try:
        from gloveport.cli.main import main as run
    except KeyboardInterrupt:  # most of a command's first 40 ms pass in these imports
        raise SystemExit(130) from None
    run()
