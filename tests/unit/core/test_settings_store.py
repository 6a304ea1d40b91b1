from __future__ import annotations

import threading
import time

import pytest
import redis
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import DjangoCaptureOnCommitCallbacks

from core import publish, settings_store
from core.audit import Actor
from core.models import AuditEntry, Setting
from core.settings import Settings
from core.settings_store import Conflict, Edit

ADA = Actor("ada")

pytestmark = pytest.mark.django_db


def test_without_rows_the_defaults_are_in_force() -> None:
    assert settings_store.current() == Settings()


def test_a_set_value_is_in_force_and_audited() -> None:
    settings_store.set_setting("max_images", "3", ADA)
    settings_store.set_setting("max_images", 4, ADA)
    assert settings_store.current().max_images == 4
    trail = list(AuditEntry.objects.order_by("id").values_list("actor", "verb", "before", "after"))
    first, second = {"name": "max_images", "value": 3}, {"name": "max_images", "value": 4}
    assert trail == [("ada", "setting.set", None, first), ("ada", "setting.set", first, second)]


def test_a_refused_value_leaves_no_trace() -> None:
    with pytest.raises(ValueError, match="at most 100"):
        settings_store.set_setting("max_images", 101, ADA)
    assert not Setting.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_reset_setting_is_at_its_default_again() -> None:
    settings_store.set_setting("max_images", 3, ADA)
    settings_store.reset_setting("max_images", ADA)
    settings_store.reset_setting("max_images", ADA)
    assert settings_store.current() == Settings()
    assert AuditEntry.objects.filter(verb="setting.reset").count() == 1


def test_edits_are_saved_all_or_none() -> None:
    with pytest.raises(ValueError, match="at most 5"):
        settings_store.change_settings([Edit("max_images", "20", 3), Edit("max_attempts", "3", 9)], ADA)
    assert settings_store.current() == Settings()
    settings_store.change_settings([Edit("max_images", "20", 3), Edit("max_attempts", "3", 2)], ADA)
    assert settings_store.current() == Settings(max_images=3, max_attempts=2)


def test_an_edit_of_what_somebody_else_changed_saves_nothing() -> None:
    settings_store.set_setting("max_images", 7, ADA)
    with pytest.raises(Conflict) as caught:
        settings_store.change_settings([Edit("max_images", "20", 3), Edit("max_attempts", "3", 2)], ADA)
    assert caught.value.names == ["max_images"]
    assert settings_store.current() == Settings(max_images=7)


def test_an_edit_back_to_the_default_leaves_no_row() -> None:
    settings_store.set_setting("max_images", 7, ADA)
    settings_store.change_settings([Edit("max_images", "7", 20)], ADA)
    assert not Setting.objects.exists()
    changes, older = settings_store.last_changes(10)
    assert [(change.actor, change.before, change.after) for change in changes] == [("ada", 7, None), ("ada", None, 7)]
    assert older is None


@pytest.mark.django_db(transaction=True)
def test_of_two_saves_at_once_one_is_told_of_the_other(redis_url: str) -> None:
    barrier, outcomes = threading.Barrier(2), []

    def save(number: int) -> None:
        barrier.wait()
        try:
            settings_store.change_settings([Edit("max_images", "20", number)], ADA)
            outcomes.append(number)
        except Conflict:
            outcomes.append(0)
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=[number]) for number in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(outcomes) == 0
    assert settings_store.current().max_images == max(outcomes)


def test_a_row_of_a_knob_that_is_gone_does_not_stop_the_others() -> None:
    Setting.objects.create(name="colour", value="red", updated_by="ada")
    settings_store.set_setting("max_images", 3, ADA)
    assert settings_store.current() == Settings(max_images=3)


def test_a_change_is_announced_after_the_commit(
    redis_url: str, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with redis.Redis.from_url(redis_url) as client, client.pubsub(ignore_subscribe_messages=True) as listener:
        client.set(publish.VERSION_KEY, 7_000_000)  # channels are shared by all databases: tell ours by its number
        listener.subscribe(publish.CHANNEL)
        with django_capture_on_commit_callbacks(execute=True):
            settings_store.set_setting("max_images", 3, ADA)
            assert client.get(publish.VERSION_KEY) == b"7000000"
        assert client.get(publish.VERSION_KEY) == b"7000001"
        heard = []
        deadline = time.monotonic() + 5
        while b"7000001" not in heard and time.monotonic() < deadline:
            message = listener.get_message(timeout=0.1)
            heard.append(message and message["data"])
        assert b"7000001" in heard


def test_the_command_lists_gets_sets_and_resets(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("settings", "set", "max_images", "3")
    call_command("settings", "get", "max_images")
    assert capsys.readouterr().out == "max_images = 3 images\n3\n"
    call_command("settings", "list")
    listed = capsys.readouterr().out
    assert "* max_images = 3 images\n" in listed
    assert "  max_attempts = 3 accounts\n" in listed
    assert "Most images in one request, history included. (0 to 100 images; default 20)" in listed
    call_command("settings", "reset", "max_images")
    call_command("settings", "get", "max_images")
    assert capsys.readouterr().out == "max_images = 20 images (the default)\n20\n"


def test_the_list_says_which_stored_value_is_not_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    Setting.objects.create(name="max_images", value=1000, updated_by="ada")
    call_command("settings", "list")
    assert "* max_images = 1000 images   NOT IN FORCE: max_images must be at most 100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["set", "max_images", "1000"], "max_images must be at most 100 images."),
        (["set", "colour", "red"], "There is no setting named colour."),
        (["get", "colour"], "There is no setting named colour. `manage.py settings list` shows all."),
        (["get", "max_atempts"], "There is no setting named max_atempts. Perhaps: max_attempts."),
        (["get", "idle"], "There is no setting named idle. Perhaps: idle_timeout."),
        (["reset", "colour"], "There is no setting named colour."),
    ],
)
def test_the_command_refuses_with_a_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("settings", *words)
