"""Two teams that must not see each other, people of each role, and a few records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ops.models import RequestRecord
from ops.record import Attempt, Outcome, Record
from tenants.models import Membership, Role, Team
from tenants.verbs import create_team

PASSWORD = "correct-horse-battery"


def make_record(request_id: str, team_id: int | None, outcome: Outcome = Outcome.OK, **values: object) -> RequestRecord:
    """A stored record that began now."""
    defaults: dict[str, object] = {
        "request_id": request_id,
        "started_at": datetime.now(UTC).timestamp() - 5,
        "protocol": "chat",
        "endpoint": "/v1/chat/completions",
        "team_id": team_id,
        "model": "sim-lorem",
        "outcome": outcome,
        "status": 200,
        "duration_ms": 840,
        "first_token_ms": 120,
        "input_tokens": 1200,
        "output_tokens": 34,
        "attempts": (Attempt(account_id=1, transport="agent_rpc", at_ms=0, took_ms=800),),
    }
    row = RequestRecord.from_record(Record(**(defaults | values)))  # type: ignore[arg-type]
    row.save()
    return row


def make_user(name: str, team: Team | None = None, role: Role = Role.VIEWER) -> User:
    user = User.objects.create_user(name, password=PASSWORD)
    if team is not None:
        Membership.objects.create(user=user, team=team, role=role)
    return user


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def red(redis_url: str, db: None) -> Team:
    return create_team("Red")


@pytest.fixture
def blue(redis_url: str, db: None) -> Team:
    return create_team("Blue")


@pytest.fixture
def owner(redis_url: str, db: None) -> User:
    return User.objects.create_superuser("boss", password=PASSWORD)
