from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


@pytest.mark.django_db
def test_a_job_runs_at_once_and_the_list_tells_of_it(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("jobs", "run", "accounts.tasks.apply_effects")
    assert "done" in capsys.readouterr().out
    call_command("jobs", "list")
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "effects 0" in shown["accounts.tasks.apply_effects"]
    assert "never" in shown["ops.tasks.reap_lost"]


def test_a_job_that_is_not_there_is_refused_with_the_one_that_was_meant(redis_url: str) -> None:
    with pytest.raises(CommandError, match=r"Did you mean accounts\.tasks\.apply_effects"):
        call_command("jobs", "run", "accounts.tasks.apply_effect")
