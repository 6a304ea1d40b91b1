from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands, load_command_class
from django.db import OperationalError

from config import command_line, environment
from core.command import Command
from tests.plugins.instance import clean_environment, manage

OURS = sorted(name for name, app in get_commands().items() if not app.startswith(command_line.FOREIGN))


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_without_a_command_our_own_are_shown_with_a_sentence_each(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command_line.run(["manage.py", *words])
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert sorted(shown) == OURS
    assert shown["models"] == "Show and change the models that callers may name, and the aliases that lead to them"


@pytest.mark.parametrize("name", OURS)
def test_help_of_a_command_shows_its_own_options_alone_each_with_a_text(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    assert isinstance(command, Command)
    assert command.help.endswith(".")
    parser = command.create_parser("manage.py", name)
    shown = parser.format_help()
    assert "--pythonpath" not in shown
    assert "--skip-checks" not in shown
    parsers = [parser]
    for action in parser._actions:
        if isinstance(action.choices, dict):
            parsers += action.choices.values()
    silent = [
        action.dest for each in parsers for action in each._actions if not action.help and action.dest != "action"
    ]
    assert silent == []


def test_a_python_without_our_packages_is_told_which_one_has_them() -> None:
    bare = [sys.executable, "-S", "manage.py", "up"]
    done = subprocess.run(bare, cwd=environment.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert " is not installed for " in done.stderr
    assert "Traceback" not in done.stderr
    assert ".venv/bin/python manage.py" in done.stderr


def test_commands_of_a_data_dir_where_nothing_runs_say_so_in_one_line(tmp_path: Path) -> None:
    done = manage(tmp_path, "models", "list")
    assert done.returncode == 1
    assert done.stderr == (
        f"Poolgate does not run on {tmp_path}: start it with `manage.py up` (the demo: `make run`),"
        " or set DATABASE_URL and REDIS_URL to engines of your own.\n"
    )


def test_engines_that_died_with_their_address_left_behind_are_said_to_be_away(tmp_path: Path) -> None:
    environment.write_json(
        tmp_path / environment.ENGINES_FILE,
        {"DATABASE_URL": "postgresql://poolgate:s3cret@127.0.0.1:1/poolgate", "REDIS_URL": "redis://127.0.0.1:1/0"},
    )
    done = manage(tmp_path, "demo", "--remove")
    assert done.returncode == 1
    assert done.stderr.startswith("The database does not answer: ")
    assert f"Poolgate does not run on {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr


def test_an_address_of_ones_own_that_does_not_answer_is_to_be_corrected(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "models", "list", "--data-dir", str(tmp_path)],
        cwd=environment.ROOT,
        env=clean_environment(DATABASE_URL="postgresql://127.0.0.1:1/poolgate"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("Correct DATABASE_URL, or start what it names.\n")


def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    command = f"{sys.executable} -c 'import sys; from config.command_line import run; run(sys.argv)' help --commands"
    piped = ["/bin/sh", "-c", f"({command}; echo ended $? >&2) | true"]
    done = subprocess.run(
        piped, cwd=environment.ROOT, capture_output=True, text=True, check=False,
        env=clean_environment(DJANGO_SETTINGS_MODULE="config.settings", PYTHONUNBUFFERED="1"),
    )  # fmt: skip
    assert done.stderr == "ended 0\n"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OperationalError("no route\nto host"), "The database does not answer: no route\n"),
        (redis.ConnectionError("refused"), "Redis does not answer: refused\n"),
    ],
)
def test_engines_that_are_away_end_a_command_with_a_sentence(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "execute_from_command_line", raising(error))
    with pytest.raises(SystemExit, match=sentence):
        command_line.run(["manage.py", "models"])


def test_a_mistake_in_the_configuration_is_not_taken_for_missing_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/poolgate")
    monkeypatch.setattr(command_line, "execute_from_command_line", raising(ImproperlyConfigured("SECRET_KEY")))
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        command_line.run(["manage.py", "models"])


def raising(error: Exception) -> object:
    def run(_: list[str]) -> None:
        raise error

    return run
