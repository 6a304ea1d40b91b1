from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import Settings

from accounts.compile import AccountState
from accounts.management.commands import accounts as command
from accounts.models import Account, CatalogueModel, Cooldown, Group
from accounts.verbs import set_state
from core.encryption import open_sealed
from core.models import AuditEntry
from tenants.models import Team
from tenants.verbs import create_team

pytestmark = pytest.mark.django_db

KEY = "crsr_0123456789abcdefghijwxyz"
Run = Callable[..., str]


@pytest.fixture
def team() -> Team:
    return create_team("Research")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command with ``typed`` on standard input and returns what it said."""

    def words(*arguments: str, typed: str = KEY) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed + "\n"))
        call_command("accounts", *arguments)
        return capsys.readouterr().out

    return words


def test_the_first_account_comes_with_a_group_and_the_team_that_may_use_it(run: Run, team: Team) -> None:
    said = run("add", "alice", "--team", "research", "--slots", "5", "--models", "gpt-*, composer-2.5")
    row = Account.objects.get()
    assert (row.slots, row.allowed_models) == (5, ["gpt-*", "composer-2.5"])
    assert open_sealed(row.credential.sealed).decode() == KEY
    assert said.splitlines() == [
        "alice  cursor  ready  0 of 5 slots  key …wxyz  groups main",
        "group main  teams Research",
    ]
    assert list(team.account_groups.all()) == [Group.objects.get()]


def test_a_group_without_teams_says_how_to_let_one_use_it(run: Run, team: Team) -> None:
    said = run("add", "alice", "--group", "Night shift")
    assert said.endswith("no team yet; let one: manage.py accounts allow night-shift TEAM\n")
    assert run("allow", "night-shift", "Research") == "group Night shift  teams Research\n"
    assert "no team yet" in run("deny", "Night shift", "research")


def test_a_second_account_takes_no_team_away(run: Run, team: Team) -> None:
    other = create_team("Ops")
    run("add", "alice", "--team", "Research")
    run("add", "bob", "--team", "Ops")
    assert set(Group.objects.get().teams.all()) == {team, other}


def test_the_key_is_asked_for_where_there_is_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr(command, "getpass", lambda prompt: f"asked: {prompt}")
    assert command.read_key("alice") == "asked: API key of alice: "


def test_a_new_key_brings_an_account_back_that_waits_for_one(run: Run) -> None:
    run("add", "alice")
    set_state(Account.objects.get(), AccountState.NEEDS_SIGN_IN, "auth_revoked")
    assert "needs_sign_in (auth_revoked)" in run("list")
    said = run("key", "alice", typed="crsr_another_key_of_some_length")
    assert "alice  cursor  ready" in said
    assert "key …ngth" in said


def test_accounts_are_woken_and_switched(run: Run) -> None:
    run("add", "alice")
    row = Account.objects.get()
    set_state(row, AccountState.BLOCKED, "blocked")
    Cooldown.objects.create(account=row, model="gpt-5.2", until=timezone.now() + timedelta(hours=1), reason="limit")
    assert "alice  cursor  blocked  0 of" in run("list")
    assert "    gpt-5.2 rests until" in run("list")
    woken = run("wake", "alice")
    assert "alice  cursor  ready" in woken
    assert "rests" not in woken
    assert "alice  cursor  disabled" in run("disable", "alice")
    assert "alice  cursor  ready" in run("enable", "alice")
    assert "alice  cursor  draining" in run("drain", "alice")
    assert "alice  cursor  ready" in run("fill", "alice")
    assert set(AuditEntry.objects.filter(verb="account.disable").values_list("actor", flat=True)) == {"command line"}


def test_a_removed_account_leaves_the_way_to_the_next(run: Run) -> None:
    run("add", "alice")
    assert run("remove", "alice") == "alice is gone.\n"
    assert run("list").endswith("Add one: manage.py accounts add NAME --team TEAM\n")


def test_a_provider_is_added_with_its_channel(run: Run, team: Team) -> None:
    said = run(
        "add-provider", "vendor", "--kind", "anthropic", "--base-url", "https://api.example.com", "--models", "a=b, c",
        "--team", "Research", "--effort", "high", "--extra-params", '{"top_k": 3}', "--header", "x-title=a=b",
        "--idle-timeout", "60", "--context-tokens", "90000",
    )  # fmt: skip
    channel = Account.objects.get().channel
    assert said.splitlines()[:2] == [
        "vendor  provider  ready  0 of 3 slots  key …wxyz  groups main",
        f"    channel {channel.channel_id}  anthropic_messages  https://api.example.com  a=b, c",
    ]
    assert (channel.effort, channel.extra_params, channel.headers) == ("high", {"top_k": 3}, {"x-title": "a=b"})
    assert (channel.idle_timeout, channel.endpoint, channel.context_tokens) == (60, "", 90_000)
    assert list(CatalogueModel.objects.values_list("name", "upstream")) == [("a", "provider"), ("c", "provider")]
    assert KEY not in said


def test_a_provider_is_edited_and_keeps_what_is_not_named(run: Run) -> None:
    run(
        "add-provider", "vendor", "--kind", "openai-chat", "--base-url", "https://api.example.com", "--models", "a=b",
        "--effort", "high", "--header", "x-title=a",
    )  # fmt: skip
    said = run("edit-provider", "vendor", "--rename", "dealer", "--models", "a=c,d", "--effort", "", "--priority", "5")
    row = Account.objects.get()
    assert said.startswith("dealer  provider  ready")
    assert (row.channel.names, row.channel.effort, row.priority) == ({"a": "c", "d": "d"}, "", 5)
    assert (row.channel.headers, row.credential.last_four) == ({"x-title": "a"}, KEY[-4:])
    assert "key …6789" in run("edit-provider", "dealer", "--key", typed="sk-0123456789-0123456789")


PROVIDER = ["add-provider", "bob", "--models", "m", "--kind", "openai-chat", "--base-url"]


def test_a_key_too_short_to_show_a_part_of_is_said_to_be_kept(run: Run) -> None:
    assert "key kept" in run("add", "alice", typed="short")


@pytest.mark.parametrize(
    ("words", "typed", "sentence"),
    [
        (["add", "bob", "--team", "nobody"], KEY, "There is no team named nobody. Teams: Research."),
        (["add", "alice"], KEY, "name: Account with this Name already exists."),
        (["add", "bob"], "", "api_key: must be one word of printable characters."),
        (["add", "bob", "--slots", "-1"], KEY, "slots: "),
        ([*PROVIDER, "https://10.0.0.1"], KEY, "base_url: 10.0.0.1 is no public address."),
        ([*PROVIDER, "https://a.example", "--extra-params", "{"], KEY, "Expecting property name"),
        ([*PROVIDER, "https://a.example", "--header", "authorization=x"], KEY, "headers: authorization looks like"),
        (["key", "bob"], KEY, "There is no account named bob; `manage.py accounts list` shows them."),
        (["wake", "alice", "bob"], KEY, "There is no account named bob"),
        (["allow", "nowhere", "Research"], KEY, "There is no group named nowhere. Groups: main."),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence_and_leaves_nothing(
    words: list[str], typed: str, sentence: str, run: Run, team: Team
) -> None:
    run("add", "alice")
    with pytest.raises(CommandError, match=sentence):
        run(*words, typed=typed)
    assert list(Account.objects.values_list("name", flat=True)) == ["alice"]
    assert Group.objects.get().teams.count() == 0


def test_a_text_server_and_the_way_to_a_cursor_account(run: Run, settings: Settings) -> None:
    settings.POOLGATE_UPSTREAM_HOSTS = ["models.internal"]
    said = run("add-text", "local", "--base-url", "http://models.internal/", "--models", "llama-*,phi")
    row = Account.objects.get(name="local")
    assert (row.transport, row.base_url, row.allowed_models) == (
        "text_chat",
        "http://models.internal",
        ["llama-*", "phi"],
    )
    assert said.startswith("local  text_chat  ready")
    run("add", "alice", "--transport", "cloud_agents")
    run("transport", "auto", "alice")
    assert Account.objects.get(name="alice").transport == "auto"
    with pytest.raises(CommandError, match="takes text_chat"):
        run("transport", "auto", "local")
