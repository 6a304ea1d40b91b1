from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accounts.compile import AccountState
from accounts.groups import allow_teams, create_group
from accounts.verbs import create_cursor_account, set_enabled, set_state
from config import environment
from config.preflight import problems
from tenants.verbs import create_owner, create_team, issue_key

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_data_dir_with_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setenv("POOLGATE_DATA_DIR", str(tmp_path))
    for name in environment.SECRETS:
        monkeypatch.delenv(name, raising=False)
    environment.make_secrets(tmp_path)
    settings.DATA_DIR = tmp_path


def test_each_missing_thing_comes_with_the_command_that_makes_it() -> None:
    said = [(problem.what, problem.fix) for problem in problems()]
    assert said == [
        ("There is no account to serve requests.", "Add one: manage.py accounts add NAME --team TEAM"),
        ("There is no API key.", "Make one: manage.py issue_key --team NAME --name NAME --create-team"),
        ("There is no owner to sign in.", "Run `manage.py owner --reset`."),
    ]


def test_a_team_with_keys_must_be_allowed_accounts_that_are_switched_on() -> None:
    create_owner()
    team, other = create_team("Research"), create_team("Ops")
    issue_key(team, "ci")
    issue_key(team, "laptop")
    group, empty = create_group("Main", teams=[other]), create_group("Empty", teams=[team])
    account = create_cursor_account("alice", "crsr_key_of_alice_000", groups=[group])
    wanting = ["Team Research has keys, but no accounts that it may use."]
    assert [problem.what for problem in problems()] == wanting
    allow_teams(empty, [team, other])
    assert [problem.what for problem in problems()] == wanting
    allow_teams(group, [team])
    assert problems() == []
    set_enabled(account, enabled=False)
    assert [problem.what for problem in problems()][1:] == wanting


def test_a_pool_without_a_ready_account_is_a_problem() -> None:
    create_owner()
    team = create_team("Research")
    issue_key(team, "ci")
    account = create_cursor_account("alice", "crsr_key_of_alice_000", groups=[create_group("Main", teams=[team])])
    set_state(account, AccountState.NEEDS_SIGN_IN, "auth_revoked")
    assert [problem.what for problem in problems()] == ["No account is ready."]
