#!/usr/bin/env python3
"""The command line of Poolgate: ``manage.py up`` starts everything, ``manage.py help`` lists the rest."""

from __future__ import annotations

import os
import sys

try:
    from config.environment import take_data_dir
except ModuleNotFoundError as error:
    sys.exit(
        f"{error.name} is not installed for {sys.executable}.\n"
        "Poolgate's own Python has it: .venv/bin/python manage.py ... (`make .venv` makes it)"
    )


def main(argv: list[str]) -> None:
    """Runs one command. ``--data-dir`` is taken here so that every command finds the same engines and secrets."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    rest = take_data_dir(argv)
    from config.command_line import run  # noqa: PLC0415 - the data dir must be known first

    run(rest)


if __name__ == "__main__":
    main(sys.argv)
