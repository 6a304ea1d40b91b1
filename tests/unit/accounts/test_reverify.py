from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
import redis as redis_module
from django.utils import timezone

from accounts import queries, reverify
from accounts.compile import AccountView, compile_accounts
from accounts.cooldowns import Resting, restore
from accounts.leases import cooldowns_key
from accounts.models import Account, Cooldown
from accounts.reverify import Due, choose_probes, find_due
from accounts.verbs import create_cursor_account
from core import redis

HOUR = 3600.0


@pytest.fixture
def client(redis_url: str) -> redis_module.Redis:
    return redis.connection()


@pytest.fixture
def account(db: None, redis_url: str) -> Account:
    return create_cursor_account("alice", "crsr_secret_of_alice")


def rest(account: Account, *, began: float, lasts: float, reason: str = "quota", model: str = "") -> Cooldown:
    """A rest that began so many seconds ago."""
    now = timezone.now()
    row = Cooldown.objects.create(
        account=account, model=model, reason=reason, created_at=now - timedelta(seconds=began),
        until=now + timedelta(seconds=lasts - began),
    )  # fmt: skip
    restore(redis.connection(), [Resting(account.pk, model, row.until.timestamp())], now.timestamp())
    return row


def run(
    client: redis_module.Redis, *, answers: bool, budget: int = 6, meanwhile: Callable[[], object] = lambda: None
) -> tuple[dict[str, int], list[int]]:
    asked: list[int] = []

    def ask(accounts: Sequence[AccountView]) -> set[int]:
        asked.extend(account.id for account in accounts)
        meanwhile()
        return {account.id for account in accounts} if answers else set()

    views = compile_accounts(queries.account_rows())
    return dict(reverify.reverify(client, views, queries.sealed_credentials(), budget, ask)), asked


@pytest.mark.parametrize(
    ("began", "quarter"), [(0.1, None), (0.24, None), (0.26, 1), (0.49, 1), (0.51, 2), (0.76, 3), (0.99, 3)]
)
def test_a_long_rest_is_looked_at_once_in_each_quarter(account: Account, began: float, quarter: int | None) -> None:
    row = rest(account, began=began * HOUR, lasts=HOUR)

    assert [due.quarter for due in find_due([row], timezone.now().timestamp())] == ([quarter] if quarter else [])


@pytest.mark.parametrize(
    ("lasts", "reason"),
    [(899, "quota"), (HOUR, "device_limit"), (HOUR, "model_limit"), (HOUR, "model_gated"), (HOUR, "auth_revoked")],
)
def test_short_rests_and_what_a_cheap_call_cannot_judge_are_left_alone(
    account: Account, lasts: float, reason: str
) -> None:
    row = rest(account, began=lasts * 0.6, lasts=lasts, reason=reason)

    assert find_due([row], timezone.now().timestamp()) == []


def test_who_answers_is_half_open_and_stays_so(account: Account, client: redis_module.Redis) -> None:
    rest(account, began=0.3 * HOUR, lasts=HOUR)

    counts, asked = run(client, answers=True)

    assert (counts, asked) == ({"asked": 1, "ended": 1}, [account.pk])
    until = client.hget(cooldowns_key(account.pk), "*")
    assert until is not None, "it is remembered that it rested: one request tries it"
    assert int(until) <= timezone.now().timestamp() * 1000
    assert not Cooldown.objects.exists()


def test_a_fault_that_came_while_it_was_asked_is_not_undone(account: Account, client: redis_module.Redis) -> None:
    row = rest(account, began=0.3 * HOUR, lasts=HOUR)
    longer = row.until + timedelta(hours=1)

    def fail_again() -> None:
        restore(client, [Resting(account.pk, "", longer.timestamp())], timezone.now().timestamp())
        Cooldown.objects.update(until=longer)

    assert run(client, answers=True, meanwhile=fail_again)[0] == {"asked": 1, "ended": 0}
    assert int(client.hget(cooldowns_key(account.pk), "*") or 0) == int(longer.timestamp() * 1000)
    assert Cooldown.objects.get().until == longer


def test_who_does_not_answer_rests_on_and_is_not_asked_twice_in_a_quarter(
    account: Account, client: redis_module.Redis
) -> None:
    rest(account, began=0.3 * HOUR, lasts=HOUR)

    assert run(client, answers=False)[0] == {"asked": 1, "ended": 0}
    assert run(client, answers=False)[0] == {"asked": 0, "ended": 0}
    assert Cooldown.objects.count() == 1


def test_an_account_is_not_worn_out_by_questions(account: Account, client: redis_module.Redis) -> None:
    for number in range(5):
        rest(account, began=0.3 * HOUR, lasts=HOUR, model=f"m{number}")

    assert run(client, answers=False, budget=2)[0]["asked"] == 2


def test_two_workers_never_choose_the_same(client: redis_module.Redis) -> None:
    due = [Due(number, number, "", 1, 100.0, 1e9) for number in (1, 2)]

    assert [choose_probes(client, due, 6), choose_probes(client, due, 6)] == [due, []]


def test_an_account_that_is_switched_off_is_not_asked(account: Account, client: redis_module.Redis) -> None:
    rest(account, began=0.3 * HOUR, lasts=HOUR)
    Account.objects.update(enabled=False)

    assert run(client, answers=True)[1] == []
