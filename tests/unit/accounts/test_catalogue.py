from __future__ import annotations

from datetime import UTC, datetime

import pytest

from accounts.catalogue import define_alias, define_model, ensure_catalogue, follow_upstream, learn
from accounts.models import CatalogueModel
from accounts.offered import Offered
from core.jobs import Counts
from core.models import AuditEntry

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def offer(*models: Offered, complete: bool = True, enable: bool = False) -> Counts:
    return learn({one.id: one for one in models}, NOW, complete=complete, enable=enable)


def row(name: str) -> CatalogueModel:
    return CatalogueModel.objects.get(name=name)


@pytest.fixture(autouse=True)
def redis(redis_url: str) -> None:
    """Changes are published."""


def test_a_new_model_waits_for_an_admin_unless_the_setting_says_otherwise() -> None:
    assert offer(Offered("claude-9", "Claude 9", context_tokens=9000))["added"] == 1
    assert offer(Offered("claude-9"), Offered("gpt-9"), enable=True)["added"] == 1
    first, second = row("claude-9"), row("gpt-9")
    assert (first.enabled, first.source, first.owner, first.display_name) == (
        False,
        "upstream",
        "anthropic",
        "Claude 9",
    )
    assert (first.context_tokens, first.max_output_tokens, second.enabled) == (9000, 9000, True)


def test_what_is_told_of_a_model_is_taken_over_and_said_once() -> None:
    ensure_catalogue()
    told = Offered("gpt-5.2", "GPT-5.2 new", context_tokens=300_000, parameters={"effort": ()}, max_mode=True)
    assert offer(told, complete=False)["changed"] == 1
    found = row("gpt-5.2")
    assert (found.display_name, found.context_tokens, found.max_mode) == ("GPT-5.2 new", 300_000, True)
    assert found.thinking_parameters == {}
    assert found.enabled
    entries = AuditEntry.objects.filter(verb="model.learn").count()
    assert offer(told, complete=False) == {"added": 0, "changed": 0, "missing": 0, "refused": 0, "same": 1}
    assert AuditEntry.objects.filter(verb="model.learn").count() == entries


def test_what_an_admin_set_wins_until_it_is_given_back() -> None:
    ensure_catalogue()
    define_model("gpt-5.2", display_name="Ours", max_output_tokens=1000)
    assert row("gpt-5.2").overrides == ["display_name", "max_output_tokens"]
    offer(Offered("gpt-5.2", "Theirs", context_tokens=300_000), complete=False)
    assert (row("gpt-5.2").display_name, row("gpt-5.2").context_tokens) == ("Ours", 300_000)
    follow_upstream("gpt-5.2")
    offer(Offered("gpt-5.2", "Theirs"), complete=False)
    assert row("gpt-5.2").display_name == "Theirs"


def test_a_model_that_nobody_offers_any_more_is_marked_and_stays() -> None:
    ensure_catalogue()
    define_model("mine", upstream_id="mine-upstream")
    assert offer(Offered("gpt-5.2"), complete=False)["missing"] == 0
    assert offer(Offered("gpt-5.2"))["missing"] == 4
    assert row("composer-2.5").missing_since == NOW
    assert row("composer-2.5").enabled
    assert row("default").missing_since is None
    assert row("mine").missing_since is None
    offer(Offered("gpt-5.2"), Offered("other", aliases=("composer-2.5",)))
    assert row("composer-2.5").missing_since is None


def test_a_model_that_others_are_offered_is_not_missing() -> None:
    ensure_catalogue()
    offered = {"gpt-5.2": Offered("gpt-5.2")}
    learn(offered, NOW, complete=True, enable=False, elsewhere=frozenset({"composer-2.5"}))
    assert row("composer-2.5").missing_since is None
    assert row("claude-opus-4.6").missing_since == NOW


def test_an_answer_without_models_marks_nothing() -> None:
    ensure_catalogue()
    offer()
    assert not CatalogueModel.objects.exclude(missing_since=None).exists()


def test_slugs_become_the_base_with_parameters_and_twins_make_themselves() -> None:
    offer(
        Offered("x", context_tokens=5000, parameters={"effort": ("low", "high"), "thinking": ()}),
        Offered("x-high"),
        Offered("x-thinking"),
        Offered("x-high-thinking"),
    )
    assert set(CatalogueModel.objects.values_list("name", flat=True)) == {"x", "x-high"}
    assert (row("x-high").upstream_id, row("x-high").parameters) == ("x", {"effort": "high"})
    assert row("x-high").context_tokens == 5000


def test_aliases_patterns_and_models_of_providers_are_left_alone() -> None:
    define_model("sim-*", owner="simulator")
    define_model("gpt-1", upstream="provider", display_name="By a provider")
    CatalogueModel.objects.update(overrides=[])
    define_model("base")
    define_alias("gpt-2", "base")
    assert offer(Offered("sim-1"), Offered("gpt-1", "New"), Offered("gpt-2"), complete=False)["added"] == 0
    assert row("gpt-1").display_name == "By a provider"
    assert row("gpt-2").alias_of == "base"


def test_a_name_that_the_catalogue_cannot_hold_holds_up_nothing() -> None:
    counts = offer(Offered("bad name"), Offered("only-thinking"), Offered("good"), complete=False)
    assert counts == {"added": 1, "changed": 0, "missing": 0, "refused": 2, "same": 0}
