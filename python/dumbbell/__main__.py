"""`dumbbell` and `python -m dumbbell`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from dumbbell._cli import run_command

    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
