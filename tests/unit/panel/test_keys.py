from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.catalogue import define_model
from core.models import AuditEntry
from tenants import keys
from tenants.compile import StructuredOutput, ToolChoiceOutcome, compile_key
from tenants.models import ApiKey, Team
from tenants.verbs import issue_key, revoke_key
from tests.unit.panel.conftest import signed_in

FILLED = {
    "name": "laptop",
    "expires_at": "",
    "allowed_models": "claude-*, gpt-5.2\nsim-*",
    "fallback_model": "",
    "structured_output": "emulate",
    "tool_choice_outcome": "lenient",
    "stop_after_calls": "no",
    "kilo_tool_strict": "on",
    "expose_thinking": "no",
    "max_concurrency": "2",
}


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def test_without_keys_and_teams_the_pages_say_what_to_do(client: Client) -> None:
    assert "No keys yet" in client.get("/keys").text
    assert "No team yet" in client.get("/keys/new").text


def test_a_new_key_is_shown_once_and_works(client: Client, red: Team) -> None:
    page = client.post("/keys/new", FILLED | {"team": str(red.pk), "drop_hosted_tools": "on"})
    found = re.search(r'id="issued-key">(pg_live_[^<]+)<', page.text)

    assert found is not None
    parsed = keys.parse(found[1])
    assert parsed is not None
    view = compile_key(ApiKey.objects.get(public_id=parsed.public_id), {})
    assert (view.name, view.team, view.models) == ("laptop", "red", ("claude-*", "gpt-5.2", "sim-*"))
    assert (view.structured_output, view.expose_thinking) == (StructuredOutput.EMULATE, False)
    assert (view.kilo_tool_strict, view.stop_after_calls) == (True, False)
    assert view.tool_choice_outcome is ToolChoiceOutcome.LENIENT
    assert (view.drop_hosted_tools, view.max_concurrency, view.expires_at) == (True, 2, None)
    for address in ("/keys", f"/keys/{parsed.public_id}"):
        shown = client.get(address).text
        assert parsed.public_id in shown
        assert found[1] not in shown
    entry = AuditEntry.objects.get(verb="key.issue")
    assert (entry.actor, entry.ip) == ("boss", "127.0.0.1")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("name", "", "This field is required."),
        ("team", "0", "Select a valid choice."),
        ("allowed_models", "two;words", "holds something that is no model name."),
        ("fallback_model", "nothing", "There is no model nothing."),
        ("fallback_model", "gemini", "is not among the models that this key may use."),
        ("max_concurrency", "-1", "greater than or equal to 0"),
        ("expires_at", "2001-01-01T00:00", "must be in the future."),
        ("structured_output", "pray", "Select a valid choice."),
        ("tool_choice_outcome", "pray", "Select a valid choice."),
    ],
)
def test_a_refused_value_is_marked_beside_its_field(
    client: Client, red: Team, field: str, value: str, sentence: str
) -> None:
    define_model("gemini")
    page = client.post("/keys/new", FILLED | {"team": str(red.pk), field: value})

    assert page.status_code == 400
    label = page.text.index(f'name="{field}"')
    assert 0 < page.text.index(sentence) - label < 700
    assert not ApiKey.objects.exists()


def test_the_form_untouched_changes_nothing_and_an_edit_is_audited(client: Client, red: Team) -> None:
    row, _ = issue_key(
        red, "laptop", expose_thinking=True, stop_after_calls=True, allowed_models=["a", "b"], expires_at=_soon()
    )
    page = client.get(f"/keys/{row.public_id}").text
    assert "a\nb" in page
    assert '<option value="yes" selected>' in page
    same = {
        "name": "laptop", "expires_at": f"{row.expires_at:%Y-%m-%dT%H:%M}", "allowed_models": "a\nb",
        "structured_output": "refuse", "expose_thinking": "yes", "drop_hosted_tools": "on", "max_concurrency": "0",
        "tool_choice_outcome": "strict", "stop_after_calls": "yes",
    }  # fmt: skip
    client.post(f"/keys/{row.public_id}", same)
    assert not AuditEntry.objects.filter(verb="key.edit").exists()

    done = client.post(f"/keys/{row.public_id}", same | {"expose_thinking": "", "expires_at": ""}, follow=True)
    assert "laptop is saved" in done.text
    row.refresh_from_db()
    assert (row.expose_thinking, row.expires_at, row.allowed_models) == (None, None, ["a", "b"])
    assert AuditEntry.objects.get(verb="key.edit").actor == "boss"


def test_a_key_is_revoked_only_when_the_box_is_ticked(client: Client, red: Team) -> None:
    row, _ = issue_key(red, "laptop")
    unsure = client.post(f"/keys/{row.public_id}/revoke")
    assert unsure.status_code == 400
    assert "Tick the box" in unsure.text
    assert "laptop is revoked" in client.post(f"/keys/{row.public_id}/revoke", {"sure": "yes"}, follow=True).text
    row.refresh_from_db()
    assert row.revoked_at is not None
    assert "This key is revoked" in client.get(f"/keys/{row.public_id}").text


def test_a_key_that_was_revoked_meanwhile_is_not_edited(client: Client, red: Team) -> None:
    row, _ = issue_key(red, "laptop")
    revoke_key(row)
    page = client.post(f"/keys/{row.public_id}", FILLED)
    assert page.status_code == 400
    assert "This key is revoked" in page.text


def test_an_unknown_key_is_not_found(client: Client) -> None:
    assert client.get("/keys/nobody00").status_code == 404
    assert client.post("/keys/nobody00/revoke", {"sure": "yes"}).status_code == 404


def test_the_list_costs_a_fixed_number_of_queries(
    client: Client, red: Team, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    for number in range(5):
        issue_key(red, f"key {number}")
    with django_assert_max_num_queries(6):  # type: ignore[operator]  # the fixture's own type is no context manager
        assert client.get("/keys").text.count("pg_live_") == 5


def _soon() -> object:
    return (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
