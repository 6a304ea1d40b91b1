from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from core import settings_store
from core.audit import Actor
from core.models import AuditEntry, Setting
from core.settings import KNOBS, Settings, show_value
from tests.unit.panel.conftest import signed_in

ADA = Actor("ada")


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def form(client: Client, **typed: str) -> dict[str, str]:
    """What a browser sends for the page as it is now, after ``typed`` was typed into it."""
    page = client.get("/settings").text
    sent: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", page):
        read = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in read and (read.get("type") != "checkbox" or re.search(r"\bchecked\b", tag)):
            sent[read["name"]] = read.get("value", "")
    return sent | typed


def reviewed(page: str) -> dict[str, str]:
    """What the review's Save button sends."""
    return dict(re.findall(r'<input type="hidden" name="([\w.]+)" value="([^"]*)"', page))


def test_every_knob_is_on_the_page_with_its_help_and_bounds(client: Client) -> None:
    page = client.get("/settings").text

    for name, knob in KNOBS.items():
        assert f'id="{name}"' in page
        assert knob.help.replace("'", "&#x27;") in page
    assert 'max="1024"' in page
    assert "32.0 MiB" in page
    assert "No changes yet" in page


def test_the_form_untouched_changes_nothing(client: Client) -> None:
    response = client.post("/settings", form(client), follow=True)

    assert "Nothing was changed." in response.text
    assert not AuditEntry.objects.exists()


def test_the_difference_is_shown_before_anything_is_saved(client: Client) -> None:
    review = client.post("/settings", form(client, max_images="3", gemini_native_enabled="on"))

    assert review.status_code == 200
    assert "<del>20 images</del>" in review.text
    assert "<ins>3 images</ins>" in review.text
    assert "<del>off</del>" in review.text
    assert settings_store.current() == Settings()


def test_what_was_reviewed_is_saved_with_who_and_why(client: Client) -> None:
    review = client.post("/settings", form(client, max_images="3"))
    done = client.post("/settings/save", reviewed(review.text) | {"reason": "fewer pictures"}, follow=True)

    assert "1 setting saved" in done.text
    assert "set by boss" in done.text
    assert settings_store.current() == Settings(max_images=3)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.verb, entry.reason, entry.ip) == ("boss", "setting.set", "fewer pictures", "127.0.0.1")
    history = client.get("/settings/history?name=max_images").text
    assert "fewer pictures" in history
    assert "<td>3 images</td>" in history


@pytest.mark.parametrize(
    ("name", "text"), [("max_images", "101"), ("idle_timeout", "soon"), ("exposed_models", "a\0b")]
)
def test_a_refused_value_stays_in_the_form_with_a_sentence(client: Client, name: str, text: str) -> None:
    response = client.post("/settings", form(client, **{name: text}))

    assert response.status_code == 400
    assert f"{name} must be" in response.text
    assert f'value="{text}"' in response.text
    assert not Setting.objects.exists()


def test_two_people_who_turn_different_knobs_do_not_disturb_each_other(client: Client) -> None:
    mine = form(client, max_images="3")
    settings_store.set_setting("max_attempts", 2, ADA)
    review = client.post("/settings", mine)

    assert "meanwhile" not in review.text
    client.post("/settings/save", reviewed(review.text))
    assert settings_store.current() == Settings(max_images=3, max_attempts=2)


def test_a_change_made_since_the_form_was_loaded_is_shown_in_the_review(client: Client) -> None:
    mine = form(client, max_images="3")
    settings_store.set_setting("max_images", 7, ADA)
    review = client.post("/settings", mine)

    assert "is now 7 images, set by ada" in review.text
    assert settings_store.current() == Settings(max_images=7)


def test_a_change_made_during_the_review_is_not_overwritten(client: Client) -> None:
    review = client.post("/settings", form(client, max_images="3", max_attempts="2"))
    settings_store.set_setting("max_images", 7, ADA)
    again = client.post("/settings/save", reviewed(review.text) | {"reason": "kept"})

    assert again.status_code == 409
    assert "is now 7 images, set by ada" in again.text
    assert 'value="kept"' in again.text
    assert settings_store.current() == Settings(max_images=7)
    client.post("/settings/save", reviewed(again.text))
    assert settings_store.current() == Settings(max_images=3, max_attempts=2)


def test_a_reset_by_somebody_else_is_a_change_too(client: Client) -> None:
    settings_store.set_setting("max_images", 7, ADA)
    review = client.post("/settings", form(client, max_images="3"))
    settings_store.reset_setting("max_images", Actor("bea"))
    again = client.post("/settings/save", reviewed(review.text))

    assert again.status_code == 409
    assert "is now 20 images, set by bea" in again.text


def test_the_reset_button_goes_through_the_review(client: Client) -> None:
    settings_store.set_setting("max_images", 7, ADA)
    review = client.post("/settings", form(client, reset="max_images", max_attempts="2"))

    assert "<ins>20 images</ins>" in review.text
    client.post("/settings/save", reviewed(review.text))
    assert settings_store.current() == Settings(max_attempts=2)
    assert AuditEntry.objects.filter(verb="setting.reset").count() == 1


def test_a_stored_value_that_is_out_of_bounds_is_shown_and_can_be_mended(client: Client) -> None:
    Setting.objects.create(name="max_images", value=1000, updated_by="ada")

    assert "max_images must be at most 100 images." in client.get("/settings").text
    review = client.post("/settings", form(client, max_images="9"))
    client.post("/settings/save", reviewed(review.text))
    assert settings_store.current() == Settings(max_images=9)


def test_a_save_without_a_review_is_refused(client: Client) -> None:
    assert client.post("/settings/save", {"max_images": "3"}).status_code == 400
    assert client.post("/settings/save", {"max_images": "-3", "seen.max_images": "20"}).status_code == 400
    assert client.post("/settings", {"colour": "red", "seen.colour": "blue"}).status_code == 400
    assert not Setting.objects.exists()


def test_the_history_goes_on_on_the_next_page(client: Client) -> None:
    for number in range(60):
        settings_store.set_setting("max_images", number, ADA)
    page = client.get("/settings/history").text
    older = re.search(r'href="(\?name=&amp;before=\d+)"', page)

    assert older is not None
    second = client.get("/settings/history" + older[1].replace("&amp;", "&")).text
    assert "<td>9 images</td>" in second
    assert "<td>10 images</td>" not in second.split("<td>9 images</td>")[0]
    assert client.get("/settings/history?name=colour&before=x").status_code == 200


def test_shown_values_are_read_back_as_they_were() -> None:
    for knob in KNOBS.values():
        assert show_value(knob.default) == show_value(knob.kind(knob.default))
