from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from core.models import AuditEntry
from gateway.snapshot import compose
from tenants.models import Membership, Team
from tenants.verbs import create_team, issue_key


@pytest.fixture
def team(db: None, redis_url: str) -> Team:
    return create_team("Research")


@pytest.fixture
def ada(team: Team) -> User:
    user = User.objects.create_user("ada")
    Membership.objects.create(user=user, team=team)
    return user


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    call_command("teams", *words)
    return capsys.readouterr().out.splitlines()


def test_teams_are_listed_with_their_members(team: Team, ada: User, capsys: pytest.CaptureFixture[str]) -> None:
    issue_key(team, "laptop")

    assert said(capsys, "list") == ["research  Research  no limit  1 keys", "  ada  member  no limit"]


def test_limits_reach_the_keys_that_they_are_for(team: Team, ada: User, capsys: pytest.CaptureFixture[str]) -> None:
    hers, _ = issue_key(team, "hers", created_by=ada)
    other, _ = issue_key(team, "nobody's")

    assert said(capsys, "limit", "Research", "40")[0] == "research  Research  40 at once  2 keys"
    assert said(capsys, "limit-member", "research", "ada", "5")[1] == "  ada  member  5 at once"
    keys = compose(1).keys
    assert (keys[hers.public_id].team_limit, keys[hers.public_id].member_limit) == (40, 5)
    assert (keys[other.public_id].team_limit, keys[other.public_id].member_limit) == (40, 0)
    assert keys[hers.public_id].member_id
    assert [entry.verb for entry in AuditEntry.objects.order_by("pk")][-2:] == ["team.limit", "member.limit"]


def test_a_limit_that_is_there_already_leaves_no_line(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    before = AuditEntry.objects.count()
    said(capsys, "limit", "Research", "0")

    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["limit", "nobody", "4"], "There is no team named nobody"),
        (["limit", "Research", "100001"], "max_concurrency: must be from 0"),
        (["limit", "Research", "--", "-1"], "max_concurrency: must be from 0"),
        (["limit-member", "Research", "eve", "4"], "eve is no member of Research"),
    ],
)
def test_what_cannot_be_is_said(team: Team, words: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("teams", *words)
