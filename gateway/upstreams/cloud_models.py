"""The models of each account's API, kept for a while: fresh for five minutes, then still used while a new list is
fetched behind the caller's back, and after half an hour no more. One fetch at a time for an account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from gateway.protocols.cloud.catalogue import Offer
from ir.errors import Fault

log = logging.getLogger(__name__)

FRESH = 300.0
STALE = 1800.0

Fetch = Callable[[], Awaitable[Sequence[Offer]]]


class Kept(Struct, frozen=True):
    offers: Sequence[Offer]
    at: float


class CloudModels:
    """For one process. Times are of the loop's clock, in seconds."""

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        self._flights: dict[int, asyncio.Task[Kept]] = {}

    async def offers(self, account_id: int, fetch: Fetch) -> Sequence[Offer]:
        """What the account may use; nothing when the list cannot be had: then the request is the question."""
        kept = self._kept.get(account_id)
        age = asyncio.get_running_loop().time() - kept.at if kept else STALE
        if kept is not None and age < STALE:
            if age >= FRESH:
                self._start(account_id, fetch)
            return kept.offers
        try:
            # Shielded: one caller that leaves must not end it for the others.
            return (await asyncio.shield(self._start(account_id, fetch))).offers
        except Fault:
            return ()

    async def close(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _start(self, account_id: int, fetch: Fetch) -> asyncio.Task[Kept]:
        flight = self._flights.get(account_id)
        if flight is None:
            flight = self._flights[account_id] = asyncio.create_task(self._fetch(account_id, fetch))
            flight.add_done_callback(lambda done: self._landed(account_id, done))
        return flight

    async def _fetch(self, account_id: int, fetch: Fetch) -> Kept:
        kept = self._kept[account_id] = Kept(await fetch(), asyncio.get_running_loop().time())
        return kept

    def _landed(self, account_id: int, flight: asyncio.Task[Kept]) -> None:
        del self._flights[account_id]
        if not flight.cancelled() and (error := flight.exception()) is not None:
            log.info("account %d: no list of models: %s", account_id, error)
