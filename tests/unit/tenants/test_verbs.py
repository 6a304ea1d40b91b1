from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from core import publish
from core.audit import Actor
from core.invalid import InvalidValue
from core.models import AuditEntry
from tenants import keys, verbs
from tenants.compile import StructuredOutput, ToolChoiceOutcome, compile_keys
from tenants.models import ApiKey, Profile, Team

ADA = Actor("ada")

pytestmark = pytest.mark.django_db


def trail() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("verb", flat=True))


@pytest.fixture
def team() -> Team:
    return verbs.create_team("Blue Team", actor=ADA)


def test_a_team_gets_a_slug_and_an_audit_row(team: Team) -> None:
    assert team.slug == "blue-team"
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.verb, entry.object_id) == ("ada", "team.create", str(team.pk))
    assert entry.after == {"name": "Blue Team", "slug": "blue-team", "store_responses": True, "max_concurrency": 0}


@pytest.mark.parametrize(
    ("name", "slug", "field"),
    [("", "x", "name"), ("x" * 65, "x", "name"), ("***", "", "slug"), ("Blue Team", "other", "name"),
     ("Other", "blue-team", "slug")],
)  # fmt: skip
def test_a_bad_team_is_refused_by_field(team: Team, name: str, slug: str, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        verbs.create_team(name, slug)
    assert caught.value.field == field
    assert trail() == ["team.create"]


def test_an_issued_key_is_kept_as_its_hmac_only(team: Team) -> None:
    row, text = verbs.issue_key(team, "laptop", actor=ADA)
    parsed = keys.parse(text)
    assert parsed is not None
    assert (parsed.env, parsed.public_id, parsed.last_four) == ("live", row.public_id, row.last_four)
    assert bytes(row.digest) == keys.digest(text, settings.POOLGATE_KEY_PEPPER)
    secret = text.split("_")[3]
    assert secret not in f"{row!r} {row} {vars(row)} {list(AuditEntry.objects.values())}"
    assert trail() == ["team.create", "key.issue"]


@pytest.mark.parametrize(
    ("field", "bad"),
    [("name", ""), ("name", "x" * 65), ("expires_at", timezone.now() - timedelta(1)), ("max_concurrency", -1),
     ("allowed_models", [1])],
)  # fmt: skip
def test_a_bad_key_is_refused_by_field(team: Team, field: str, bad: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        verbs.issue_key(team, **({"name": "laptop"} | {field: bad}))  # type: ignore[arg-type]
    assert caught.value.field == field
    assert not ApiKey.objects.exists()


def test_an_unknown_env_is_refused(team: Team) -> None:
    with pytest.raises(ValueError, match="live, demo"):
        verbs.issue_key(team, "laptop", "test")


def test_a_revoked_key_keeps_the_time_of_its_first_revocation(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    verbs.revoke_key(row, actor=ADA)
    first = row.revoked_at
    verbs.revoke_key(row, actor=ADA)
    row.refresh_from_db()
    assert first is not None
    assert row.revoked_at == first
    assert trail().count("key.revoke") == 1


def test_each_verb_moves_the_version(
    redis_url: str, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        versions = []
        with django_capture_on_commit_callbacks(execute=True):
            team = verbs.create_team("Red")
        versions.append(client.get(publish.VERSION_KEY))
        with django_capture_on_commit_callbacks(execute=True):
            row, _ = verbs.issue_key(team, "laptop")
        versions.append(client.get(publish.VERSION_KEY))
        with django_capture_on_commit_callbacks(execute=True):
            verbs.revoke_key(row)
        versions.append(client.get(publish.VERSION_KEY))
        with django_capture_on_commit_callbacks(execute=True):
            verbs.delete_team(team)
        versions.append(client.get(publish.VERSION_KEY))
    assert versions == [b"1", b"2", b"3", b"4"]


def test_a_deleted_team_takes_its_keys_along(team: Team) -> None:
    verbs.issue_key(team, "laptop")
    verbs.delete_team(team, actor=ADA)
    assert not ApiKey.objects.exists()
    assert trail()[-1] == "team.delete"


def test_the_views_hold_what_the_rows_say_without_revoked_keys(team: Team) -> None:
    tomorrow = timezone.now() + timedelta(1)
    kept, text = verbs.issue_key(
        team, "laptop", expires_at=tomorrow, expose_thinking=True, allowed_models=["gpt-5.2"], max_concurrency=2
    )
    gone, _ = verbs.issue_key(team, "old")
    verbs.revoke_key(gone)
    views = compile_keys(ApiKey.objects.select_related("team"), {team.pk: frozenset({3, 4})})
    assert list(views) == [kept.public_id]
    view = views[kept.public_id]
    assert view.digest == keys.digest(text, settings.POOLGATE_KEY_PEPPER)
    assert (view.row_id, view.name, view.team_id, view.team) == (kept.pk, "laptop", team.pk, "blue-team")
    assert (view.groups, view.models, view.max_concurrency) == (frozenset({3, 4}), ("gpt-5.2",), 2)
    assert (view.expires_at, view.expose_thinking, view.drop_hosted_tools) == (tomorrow.timestamp(), True, True)
    assert repr(view.digest) not in repr(view)


def test_the_policies_of_a_key_are_edited_and_audited(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    verbs.edit_key(row, actor=ADA, name="desk", fallback_model="gpt-5.2", structured_output="emulate")
    verbs.edit_key(row, actor=ADA, allowed_models=["gpt-*"], expose_thinking=False, drop_hosted_tools=False)
    verbs.edit_key(row, actor=ADA, kilo_tool_strict=True, stop_after_calls=False, tool_choice_outcome="lenient")
    verbs.edit_key(row, actor=ADA, name="desk")  # it is so already
    view = compile_keys(ApiKey.objects.select_related("team"), {})[row.public_id]
    assert (view.name, view.fallback_model, view.structured_output) == ("desk", "gpt-5.2", StructuredOutput.EMULATE)
    assert (view.models, view.expose_thinking, view.drop_hosted_tools) == (("gpt-*",), False, False)
    assert (view.kilo_tool_strict, view.stop_after_calls) == (True, False)
    assert view.tool_choice_outcome is ToolChoiceOutcome.LENIENT
    assert row.name == "desk"
    assert trail() == ["team.create", "key.issue", "key.edit", "key.edit", "key.edit"]
    assert AuditEntry.objects.filter(actor="ada", before__fallback_model="", after__fallback_model="gpt-5.2").exists()


def test_a_new_key_refuses_schemas_and_does_with_thinking_what_the_setting_says(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    view = compile_keys(ApiKey.objects.select_related("team"), {})[row.public_id]
    assert (view.structured_output, view.expose_thinking) == (StructuredOutput.REFUSE, None)
    assert (view.fallback_model, view.drop_hosted_tools, view.models) == ("", True, ())
    assert (view.kilo_tool_strict, view.stop_after_calls) == (False, None)
    assert view.tool_choice_outcome is ToolChoiceOutcome.STRICT


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"structured_output": "pray"}, "structured_output"),
        ({"tool_choice_outcome": "pray"}, "tool_choice_outcome"),
        ({"fallback_model": "two words"}, "fallback_model"),
        ({"fallback_model": "gpt-*"}, "fallback_model"),
        ({"allowed_models": ["claude-*"], "fallback_model": "gpt-5.2"}, "fallback_model"),
        ({"allowed_models": ["two words"]}, "allowed_models"),
        ({"allowed_models": ["x"] * 201}, "allowed_models"),
        ({"expires_at": timezone.now() - timedelta(1)}, "expires_at"),
        ({"max_concurrency": -1}, "max_concurrency"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_field(team: Team, changes: dict[str, Any], field: str) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    with pytest.raises(InvalidValue) as caught:
        verbs.edit_key(row, **changes)
    assert caught.value.field == field
    row.refresh_from_db()
    assert row.name == "laptop"
    assert trail() == ["team.create", "key.issue"]


def test_a_revoked_key_is_not_edited_and_no_other_column_is_a_policy(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    with pytest.raises(TypeError, match="no policy digest"):
        verbs.edit_key(row, digest=b"")
    verbs.revoke_key(row)
    with pytest.raises(InvalidValue, match="revoked"):
        verbs.edit_key(row, name="again")


def test_a_key_that_expired_may_be_given_other_policies_or_another_end(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    ended = timezone.now() - timedelta(1)
    ApiKey.objects.update(expires_at=ended)
    verbs.edit_key(row, name="still", expires_at=ended)
    verbs.edit_key(row, expires_at=None)
    assert (row.name, row.expires_at) == ("still", None)


def test_a_team_without_groups_may_use_none(team: Team) -> None:
    row, _ = verbs.issue_key(team, "laptop")
    assert compile_keys(ApiKey.objects.select_related("team"), {})[row.public_id].groups == frozenset()


def test_the_owner_is_made_once_with_a_password_for_one_use() -> None:
    password = verbs.create_owner()
    owner = authenticate(username="admin", password=password)
    assert isinstance(owner, User)
    assert owner.is_superuser
    assert Profile.objects.get(user=owner).must_change_password
    with pytest.raises(ValueError, match="exists already"):
        verbs.create_owner()
    assert password not in str(list(AuditEntry.objects.values()))


def test_a_reset_owner_gets_another_password_and_must_change_it() -> None:
    first = verbs.create_owner("correct horse battery")
    Profile.objects.update(must_change_password=False)
    User.objects.update(is_active=False)
    second = verbs.reset_owner()
    assert authenticate(username="admin", password=first) is None
    assert authenticate(username="admin", password=second) is not None
    assert Profile.objects.get().must_change_password
    assert trail() == ["owner.create", "owner.reset"]


def test_the_command_prints_the_key_alone(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("issue_key", "--team", "blue-team", "--name", "ci", "--env", "demo")
    printed = capsys.readouterr().out
    parsed = keys.parse(printed.removesuffix("\n"))
    assert parsed is not None
    row = ApiKey.objects.get(public_id=parsed.public_id)
    assert (row.team, row.name, row.env) == (team, "ci", "demo")


def test_the_command_sets_the_policies_for_calls(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--tool-choice-outcome", "lenient", "--kilo-tool-strict", "--stop-after-calls", "yes"]
    call_command("issue_key", "--team", "blue-team", "--name", "kilo", *flags)
    call_command("issue_key", "--team", "blue-team", "--name", "plain")
    made = ApiKey.objects.order_by("id").values_list("tool_choice_outcome", "kilo_tool_strict", "stop_after_calls")
    assert list(made) == [("lenient", True, True), ("strict", False, None)]
    assert capsys.readouterr().out.count("pg_live_") == 2


def test_the_command_makes_no_team_unless_told_to(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"no team named Green. Teams: Blue Team. Add --create-team"):
        call_command("issue_key", "--team", "Green", "--name", "ci")
    assert capsys.readouterr().out == ""
    call_command("issue_key", "--team", "Green", "--name", "ci", "--create-team")
    assert ApiKey.objects.get().team.slug == "green"


def test_the_command_leaves_no_team_behind_when_the_key_is_refused() -> None:
    with pytest.raises(CommandError, match="name:"):
        call_command("issue_key", "--team", "Green", "--name", "", "--create-team")
    assert not Team.objects.exists()


def test_keys_are_listed_edited_and_revoked_from_the_command_line(
    team: Team, capsys: pytest.CaptureFixture[str]
) -> None:
    row, text = verbs.issue_key(team, "laptop")
    call_command("keys", "edit", row.public_id, "--models", "gpt-*, claude-*", "--fallback-model", "gpt-5.2")
    call_command("keys", "edit", row.public_id, "--structured-output", "emulate", "--drop-hosted-tools", "no")
    call_command("keys", "edit", row.public_id, "--expose-thinking", "yes", "--max-concurrency", "3", "--name", "desk")
    call_command("keys", "edit", row.public_id, "--tool-choice-outcome", "lenient", "--kilo-tool-strict", "yes")
    call_command("keys", "edit", row.public_id, "--stop-after-calls", "no")
    call_command("keys", "list")
    assert capsys.readouterr().out == (
        f"{row.public_id} …{row.last_four}  blue-team  desk  (active; models gpt-*,claude-*; fallback gpt-5.2;"
        " emulates schemas; refuses hosted tools; text for a missing call; demands calls; goes on after calls;"
        " shows thinking; 3 at once)\n"
    )
    call_command("keys", "edit", row.public_id, "--expose-thinking", "default", "--models", "")
    call_command("keys", "revoke", row.public_id)
    call_command("keys", "list")
    shown = capsys.readouterr().out
    assert "(revoked; fallback gpt-5.2;" in shown
    assert "thinking" not in shown
    assert text not in shown
    with pytest.raises(CommandError, match="the key is revoked"):
        call_command("keys", "edit", row.public_id, "--name", "again")
    with pytest.raises(CommandError, match="There is no key nobody00"):
        call_command("keys", "revoke", "nobody00")


def test_a_key_is_active_then_expired_or_revoked(team: Team) -> None:
    now = timezone.now()
    row, _ = verbs.issue_key(team, "laptop", expires_at=now + timedelta(1))
    assert (row.state(now), row.state(now + timedelta(2))) == ("active", "expired")
    verbs.revoke_key(row)
    assert row.state(now) == "revoked"
