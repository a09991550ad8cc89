"""``python -m gloveport``."""

from gloveport.cli.main import main

if __name__ == "__main__":
    main()
