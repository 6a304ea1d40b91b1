from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from config import environment
from config.environment import SECRETS, find, make_secrets, parse_database_url, secret_problems, take_data_dir

GOOD = {
    "SECRET_KEY": "s" * 40,
    "POOLGATE_KEY_PEPPER": "p" * 40,
    "POOLGATE_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "POOLGATE_METRICS_TOKEN": "m" * 40,
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*SECRETS, *environment.ENGINES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POOLGATE_DATA_DIR", str(tmp_path))


def test_made_secrets_are_good_private_and_stay_the_same(tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    assert secret_problems(made) == []
    assert make_secrets(tmp_path) == made
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert make_secrets(tmp_path / "other") != made


def test_the_environment_wins_over_the_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_secrets(tmp_path)
    assert find("SECRET_KEY") == made["SECRET_KEY"]
    monkeypatch.setenv("SECRET_KEY", "from outside")
    assert find("SECRET_KEY") == "from outside"
    assert make_secrets(tmp_path)["SECRET_KEY"] == "from outside"


def test_what_is_nowhere_is_empty() -> None:
    assert find("SECRET_KEY") == ""
    assert find("DATABASE_URL") == ""


def test_good_secrets_have_no_problem() -> None:
    assert secret_problems(GOOD) == []


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", ["", "   ", "brief", "change-me-" + "x" * 40, "example" + "x" * 40])
def test_a_bad_secret_is_named_and_never_shown(name: str, value: str) -> None:
    [problem] = secret_problems(GOOD | {name: value})
    assert name in problem.what
    assert name in problem.fix
    assert not value.strip() or value not in problem.what + problem.fix


def test_one_value_for_two_purposes_is_a_problem() -> None:
    [problem] = secret_problems(GOOD | {"POOLGATE_KEY_PEPPER": GOOD["SECRET_KEY"]})
    assert "same value" in problem.what


def test_a_data_dir_is_taken_from_any_place_of_a_command_line(tmp_path: Path) -> None:
    assert take_data_dir(["manage.py", "up", "--data-dir", str(tmp_path / "a"), "--demo"]) == [
        "manage.py",
        "up",
        "--demo",
    ]
    assert os.environ["POOLGATE_DATA_DIR"] == str(tmp_path / "a")
    assert take_data_dir(["manage.py", f"--data-dir={tmp_path / 'b'}", "preflight"]) == ["manage.py", "preflight"]
    assert os.environ["POOLGATE_DATA_DIR"] == str(tmp_path / "b")


def test_a_data_dir_without_a_value_is_an_error() -> None:
    with pytest.raises(SystemExit, match="needs a directory"):
        take_data_dir(["manage.py", "up", "--data-dir"])


@given(name=st.text(min_size=1, max_size=20), password=st.text(max_size=20))
def test_a_database_address_keeps_every_character_of_user_and_password(name: str, password: str) -> None:
    from urllib.parse import quote

    parsed = parse_database_url(f"postgresql://{quote(name, safe='')}:{quote(password, safe='')}@db.local:5433/app")
    assert (parsed["USER"], parsed["PASSWORD"]) == (name, password)
    assert (parsed["HOST"], parsed["PORT"], parsed["NAME"]) == ("db.local", "5433", "app")


def test_a_database_address_may_name_a_socket_directory_and_options() -> None:
    parsed = parse_database_url("postgres://app@/app?host=/run/postgresql&sslmode=disable")
    assert parsed["HOST"] == "/run/postgresql"
    assert parsed["OPTIONS"] == {"sslmode": "disable"}


def test_another_database_is_refused() -> None:
    with pytest.raises(ValueError, match="postgresql://"):
        parse_database_url("mysql://app@db/app")


def test_a_second_terminal_trusts_the_simulator_of_the_demo_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLGATE_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("POOLGATE_UPSTREAM_HOSTS", raising=False)
    assert environment.upstream_hosts() == []

    noted = {"base_url": "http://127.0.0.1:8080", "simulator_url": "http://127.0.0.1:4711"}
    environment.write_json(tmp_path / "run" / environment.UP_FILE, noted)
    assert environment.upstream_hosts() == ["127.0.0.1:4711"]

    monkeypatch.setenv("POOLGATE_UPSTREAM_HOSTS", "models.example:443")
    assert environment.upstream_hosts() == ["models.example:443"], "what the operator says wins"
