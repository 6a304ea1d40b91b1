from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from core.encryption import open_sealed, seal
from core.management.commands import rotate_keys
from gateway import continuity
from gateway.conversations import store
from gateway.conversations.facts import Ending
from gateway.conversations.store import NewTurn
from gateway.models import StoredFact, StoredTurn
from ir.errors import ApiError, Kind
from tenants.models import Team

pytestmark = pytest.mark.django_db

SECRET = "CANARY-words-of-a-caller"


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def answer(name: str) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{name}", "role": "assistant", "content": [name]}


def keep(team: Team, name: str, parent: str = "", *, brought: Sequence[Any] = (), ttl: float = 60) -> None:
    items = brought or [user(f"to {name}")]
    envelope = {"id": name, "object": "response"}
    store.save(NewTurn(name, team.pk, parent, items, [answer(name)], envelope, Ending.COMPLETED, ttl))


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="one", slug="one")


@pytest.fixture
def stranger() -> Team:
    return Team.objects.create(name="two", slug="two")


def test_a_turn_builds_on_the_whole_line_before_it_and_on_no_other_branch(team: Team) -> None:
    keep(team, "a")
    keep(team, "b", "a")
    keep(team, "c", "a")
    assert store.history(team.pk, "c") == [user("to a"), answer("a"), user("to c"), answer("c")]
    assert store.history(team.pk, "b") == [user("to a"), answer("a"), user("to b"), answer("b")]
    assert store.input_items(team.pk, "c") == [user("to c")]
    assert store.envelope(team.pk, "c") == {"id": "c", "object": "response"}


def test_another_tenants_turn_is_not_there_by_any_door(team: Team, stranger: Team) -> None:
    keep(team, "a")
    assert store.history(stranger.pk, "a") is None
    assert store.envelope(stranger.pk, "a") is None
    assert store.input_items(stranger.pk, "a") is None
    assert store.items(stranger.pk, ["msg_a"]) == {}
    assert store.delete(stranger.pk, "a") is False
    with pytest.raises(LookupError):
        keep(stranger, "b", "a")
    assert store.history(team.pk, "a") is not None


def test_items_are_found_by_their_own_id(team: Team) -> None:
    keep(team, "a")
    assert store.items(team.pk, ["msg_a", "msg_b", ""]) == {"msg_a": answer("a")}


def test_saving_twice_is_saving_once(team: Team) -> None:
    keep(team, "a")
    keep(team, "a", brought=[user("something else")])
    assert store.input_items(team.pk, "a") == [user("to a")]
    assert StoredFact.objects.count() == 3


def test_an_expired_turn_is_not_there_and_building_on_a_turn_keeps_it(team: Team) -> None:
    keep(team, "gone", ttl=-1)
    keep(team, "a", ttl=60)
    keep(team, "b", "a", ttl=600)
    assert store.history(team.pk, "gone") is None
    later = timezone.now() + timedelta(seconds=300)
    assert store.sweep(later) == 1
    assert store.history(team.pk, "b") == [user("to a"), answer("a"), user("to b"), answer("b")]
    assert store.sweep(later + timedelta(seconds=600)) == 2
    assert not StoredTurn.objects.exists()


def test_a_deleted_turn_is_gone_at_once_and_its_content_with_the_last_turn_that_needs_it(team: Team) -> None:
    keep(team, "a")
    keep(team, "b", "a")
    assert store.delete(team.pk, "a") is True
    assert store.delete(team.pk, "a") is False
    assert store.history(team.pk, "a") is None
    assert store.history(team.pk, "b") == [user("to a"), answer("a"), user("to b"), answer("b")]
    assert store.delete(team.pk, "b") is True
    assert not StoredTurn.objects.exists()


def test_nothing_readable_is_stored(team: Team) -> None:
    keep(team, "a", brought=[user(SECRET)])
    with connection.cursor() as cursor:
        for table in (StoredTurn._meta.db_table, StoredFact._meta.db_table):
            cursor.execute(f"SELECT t::text FROM {table} t")
            assert all(SECRET.encode().hex() not in row[0] and SECRET not in row[0] for row in cursor.fetchall())


def test_an_id_with_a_nul_in_it_is_unknown_like_any_other(team: Team) -> None:
    assert store.history(team.pk, "a\0") is None
    assert store.envelope(team.pk, "a\0") is None
    assert store.input_items(team.pk, "a\0") is None
    assert not store.delete(team.pk, "a\0")
    assert store.items(team.pk, ["msg_\0"]) == {}


def test_a_turn_is_kept_whatever_characters_its_callers_ids_hold(team: Team) -> None:
    call = {"type": "function_call", "id": "fc\0", "call_id": "c\0", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c\0", "output": "\0"}
    keep(team, "a", brought=[user("q"), call, result])
    assert store.history(team.pk, "a") == [user("q"), call, result, answer("a")]


def test_rotation_goes_over_all_that_is_stored_in_batches(
    team: Team, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotate_keys, "BATCH", 2)
    keep(team, "a", brought=[user(str(number)) for number in range(5)])
    before = store.history(team.pk, "a")
    new = Fernet.generate_key().decode()
    settings.POOLGATE_ENCRYPTION_KEYS = [new, *settings.POOLGATE_ENCRYPTION_KEYS]
    call_command("rotate_keys", stdout=StringIO())
    settings.POOLGATE_ENCRYPTION_KEYS = [new]
    assert store.history(team.pk, "a") == before
    assert store.envelope(team.pk, "a") == {"id": "a", "object": "response"}


async def test_stored_state_whose_key_is_gone_is_unavailable_and_not_our_bug(settings: Settings) -> None:
    settings.POOLGATE_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    sealed = seal("x")
    settings.POOLGATE_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(ApiError) as caught:
        await continuity._ask(open_sealed, sealed)
    assert (caught.value.kind, caught.value.code) == (Kind.NO_CAPACITY, "store_unavailable")
