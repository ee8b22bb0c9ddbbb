"""`python -m crwn`, the same as `crwn`."""

from crwn.cli import main

if __name__ == "__main__":
    main()
