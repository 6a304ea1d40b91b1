from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.protocols.cloud.catalogue import Offer
from gateway.upstreams import cloud_models
from gateway.upstreams.cloud_models import CloudModels
from ir.errors import Fault, Reason, Stage


class Fetch:
    """Counts; each answer names its number; ``fails`` is raised instead while it is set."""

    def __init__(self) -> None:
        self.count = 0
        self.fails: Fault | None = None

    async def __call__(self) -> Sequence[Offer]:
        self.count += 1
        number = self.count
        await asyncio.sleep(0.01)
        if self.fails is not None:
            raise self.fails
        return (Offer(f"m{number}"),)


async def test_one_fetch_serves_all_who_ask_at_once_and_for_a_while() -> None:
    models, fetch = CloudModels(), Fetch()
    got = await asyncio.gather(*[models.offers(1, fetch) for _ in range(20)])
    assert {offers[0].id for offers in got} == {"m1"}
    await models.offers(1, fetch)
    assert fetch.count == 1
    await models.offers(2, fetch)
    assert fetch.count == 2


async def test_a_list_that_is_due_is_used_while_a_new_one_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    models, fetch = CloudModels(), Fetch()
    await models.offers(1, fetch)
    monkeypatch.setattr(cloud_models, "FRESH", 0.0)
    assert (await models.offers(1, fetch))[0].id == "m1"
    await asyncio.sleep(0.05)
    assert (await models.offers(1, fetch))[0].id == "m2"
    await models.close()


async def test_a_list_that_is_too_old_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    models, fetch = CloudModels(), Fetch()
    await models.offers(1, fetch)
    monkeypatch.setattr(cloud_models, "STALE", 0.0)
    assert (await models.offers(1, fetch))[0].id == "m2"


async def test_a_failed_fetch_gives_nothing_and_is_tried_again() -> None:
    models, fetch = CloudModels(), Fetch()
    fetch.fails = Fault(Reason.TIMEOUT, Stage.HEADERS)
    assert await models.offers(1, fetch) == ()
    fetch.fails = None
    assert (await models.offers(1, fetch))[0].id == "m2"


async def test_a_caller_that_leaves_does_not_end_the_fetch_for_the_others() -> None:
    models, fetch = CloudModels(), Fetch()
    first = asyncio.create_task(models.offers(1, fetch))
    second = asyncio.create_task(models.offers(1, fetch))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[0].id == "m1"
    assert fetch.count == 1
