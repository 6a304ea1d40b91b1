from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from accounts.models import CatalogueModel
from core.models import AuditEntry

pytestmark = pytest.mark.django_db


def test_models_and_aliases_are_defined_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("models", "define", "gpt-5.2", "--owner", "openai", "--context-tokens", "272000")
    call_command("models", "define", "fast", "--upstream-id", "composer-2.5")
    call_command("models", "alias", "gpt-*", "gpt-5.2")
    call_command("models", "define", "fast", "--enabled", "no")
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "gpt-* → gpt-5.2",
        "fast as composer-2.5  poolgate  context 200000, output 64000  (off)",
    ]
    call_command("models", "list")
    assert capsys.readouterr().out.splitlines() == [
        "fast as composer-2.5  poolgate  context 200000, output 64000  (off)",
        "gpt-* → gpt-5.2",
        "gpt-5.2  openai  context 272000, output 64000",
    ]
    call_command("models", "remove", "gpt-*")
    call_command("models", "remove", "gpt-5.2")
    assert capsys.readouterr().out == "gpt-* is gone.\ngpt-5.2 is gone.\n"
    assert list(CatalogueModel.objects.values_list("name", flat=True)) == ["fast"]
    verbs = AuditEntry.objects.filter(actor="command line").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["model.define"] * 2 + ["alias.define", "model.define", "alias.delete", "model.delete"]


def test_a_model_names_the_kind_of_account_that_serves_it_until_any_may(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("models", "define", "m", "--upstream", "provider")
    assert "m by provider accounts" in capsys.readouterr().out
    call_command("models", "define", "m", "--upstream", "any")
    assert CatalogueModel.objects.get().upstream == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["define", "two words"], "name: use 1 to 128"),
        (["alias", "a", "nothing"], "alias_of: there is no model nothing."),
        (["remove", "nothing"], "There is no model or alias named nothing."),
    ],
)
def test_the_command_refuses_with_a_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command("models", *words)
