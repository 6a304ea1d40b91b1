"""The command line as a whole: what ``manage.py`` says without a command, and when the engines are away.

A command that finds no database is the most ordinary mistake there is (the demo was stopped, the data dir is another
one), so it gets a sentence in place of a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line, get_commands, load_command_class
from django.db import OperationalError
from redis import ConnectionError as RedisAway

from config import environment
from core.version import VERSION

FOREIGN = ("django.", "ninja")
"""Apps whose commands are not ours."""

WITHOUT_COMMAND: tuple[list[str], ...] = ([], ["help"], ["-h"], ["--help"])


def run(argv: list[str]) -> None:
    """Runs one command; shows what there is when none is named. Raises ``SystemExit`` when the engines are away."""
    if argv[1:] in WITHOUT_COMMAND:
        print("\n".join(overview()))  # noqa: T201 - the answer of the command
        return
    try:
        execute_from_command_line(argv)
    except ImproperlyConfigured:
        if environment.find("DATABASE_URL"):
            raise  # something else is wrong, and Django says what
        sys.exit(f"{_nothing_runs()}, or set DATABASE_URL and REDIS_URL to engines of your own.")
    except OperationalError as error:
        sys.exit(f"The database does not answer: {_first_line(error)}\n{_remedy('DATABASE_URL')}")
    except RedisAway as error:
        sys.exit(f"Redis does not answer: {_first_line(error)}\n{_remedy('REDIS_URL')}")
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is still buffered would fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overview() -> Iterator[str]:
    """The lines of ``manage.py help``: our own commands, each with the first sentence of its help."""
    django.setup()
    yield f"Poolgate {VERSION}"
    yield ""
    yield "manage.py COMMAND [--data-dir DIR] ...    (manage.py COMMAND --help says more)"
    yield ""
    for name, app in sorted(get_commands().items()):
        if not app.startswith(FOREIGN):
            yield f"  {name:12} {load_command_class(app, name).help.partition('. ')[0].rstrip('.')}"
    yield ""
    yield "Django's commands work too (migrate, createsuperuser, dbshell ...): manage.py help --commands"


def _remedy(variable: str) -> str:
    if os.environ.get(variable):
        return f"Correct {variable}, or start what it names."
    return f"{_nothing_runs()}."


def _nothing_runs() -> str:
    return f"Poolgate does not run on {environment.data_dir()}: start it with `manage.py up` (the demo: `make run`)"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
