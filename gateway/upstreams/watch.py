"""Reads under a time limit: one timer for a whole run instead of one a read.

The timer is set to the nearest deadline and moved only when it fires too early. When it fires in earnest, the answer is
dropped, and the waiting read wakes up to find out why.
"""

from __future__ import annotations

import asyncio

from gateway.upstreams.http import Answer


class Watch:
    """For one run, with one reader; ``stop`` it when the run is over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._answer: Answer | None = None
        self._expired = False

    async def read(self, answer: Answer, deadline: float) -> bytes:
        """What ``answer.read`` gives. Raises ``TimeoutError`` when nothing came until ``deadline`` (loop time)."""
        if answer.pending:
            return await answer.read()
        self._deadline, self._expired = deadline, False
        if self._timer is None or deadline < self._timer.when():
            self.stop()
            self._timer = self._loop.call_at(deadline, self._fire)
        self._answer = answer
        try:
            data = await answer.read()
        finally:
            self._answer = None
        if self._expired:
            raise TimeoutError
        return data

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        answer = self._answer
        if answer is None or answer.pending:
            return  # nobody waits; the next read sets it again
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._fire)
        else:
            self._expired = True
            answer.close()
