"""One turn's dealings with parked runs (``gateway.parked``): the one that it goes on with, and the one that it leaves.

Only plain turns have any: tools that may be called or not, no form of the answer to be checked, no policy by which we
would ask a second time. There the run knows exactly what the caller knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accounts.compile import AccountView
from core import metrics
from core.metrics import Parking
from core.settings import Settings
from gateway import aside
from gateway.contracts import Clocks, ParkableRun, Run
from gateway.parked import Owner, Parked, Spent, Waiting, answers_to, digest, own_share, results_of, whole
from gateway.routing import Route
from ir.events import Event, Finish
from ir.request import Message, Request, ToolMode


class Continuation:
    """``size``: of the request's body, in bytes. ``resumed``: the attempt in flight goes on with a parked run;
    ``sealed`` the credential of its account, encrypted."""

    def __init__(
        self, request: Request, route: Route, owner: Owner, settings: Settings, kept: Callable[[], Parked], size: int
    ) -> None:
        self.resumed = False
        self.sealed = b""
        self._request = request
        self._route = route
        self._owner = owner
        self._settings = settings
        self._kept = kept
        self._size = size
        self._brings = results_of(request)
        self._asked = self._replays = False
        self._held: Waiting | None = None
        self._spent = Spent()
        self._given: list[Sequence[Event]] = []

    async def claim(self) -> AccountView | None:
        """The account whose run waits for what this request brings; the run is this turn's now. At most once."""
        if self._asked or not self._brings:
            return None
        self._asked = True
        kept = self._kept()
        waiting = kept.find(self._owner, self._brings)
        if waiting is None:
            return None
        if waiting.account not in self._route.candidates or not await self._fits(waiting):
            kept.drop(waiting)
            return None
        if not kept.take(waiting):
            return None
        self._held = waiting
        return waiting.account

    def let_go(self) -> None:
        """The claimed run is not gone on with, if there still is one."""
        held, self._held = self._held, None
        if held is not None:
            held.run.cancel()
            metrics.count_parking(Parking.DROPPED)

    def begin(self) -> ParkableRun | None:
        """The claimed run, for the attempt that begins and has to ``resume`` and close it. None: it needs a new run."""
        held, self._held = self._held, None
        self._given.clear()
        self.resumed = held is not None
        if held is not None:
            self.sealed, self._spent = held.sealed, held.spent
            return held.run
        self._spent = Spent()
        if self._brings and not self._replays:
            self._replays = True
            metrics.count_parking(Parking.REPLAYED)
        return None

    async def resume(self, run: ParkableRun, clocks: Clocks) -> None:
        """Raises ``Fault`` when the stream is lost."""
        await run.resume(self._request, self._brings, clocks)
        metrics.count_parking(Parking.CONTINUED)

    def charge(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events of a resumed run, the usage of its earlier answers taken off."""
        if not isinstance(events[-1], Finish):
            return events
        finish = events[-1]
        return [*events[:-1], Finish(finish.reason, own_share(finish.usage, self._spent), finish.extras)]

    def hear(self, events: Sequence[Event]) -> None:
        """What goes to the caller."""
        self._given.append(events)

    async def leave(self, run: Run, account: AccountView) -> bool:
        """Parks the run whose answer has gone out whole; False: it is to be closed."""
        if not isinstance(run, ParkableRun) or not run.waits:
            return False
        said = whole(event for events in self._given for event in events)
        if said is None:
            return False
        try:
            known = await self._digest(self._request.messages)
        except ValueError:
            return False
        spent = self._spent.plus(said.usage)
        self._kept().put(Waiting(run, self._owner, account, self.sealed, known, said, spent), self._settings)
        return True

    async def _fits(self, waiting: Waiting) -> bool:
        """Whether the request is the run's conversation, its calls, and nothing but their results."""
        if len(self._brings) != len(self._request.messages[-1].content) or not answers_to(self._request, waiting.said):
            return False
        try:
            return await self._digest(self._request.messages[:-2]) == waiting.digest
        except ValueError:
            return False

    async def _digest(self, messages: Sequence[Message]) -> bytes:
        route = self._route
        return await aside.work(self._size, digest, self._request, route.upstream_id, route.parameters, messages)


def is_plain(request: Request) -> bool:
    """Whether a turn may have a parked run, as far as the request is concerned."""
    choice = request.tool_choice
    return (
        bool(request.tools)
        and choice.mode is not ToolMode.NONE
        and not choice.demands_call
        and request.output_format is None
        and not request.compaction
    )
