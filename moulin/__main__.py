"""`python -m moulin`: the command line."""

from __future__ import annotations

from moulin.cli.main import main

if __name__ == "__main__":
    main("python -m moulin")
