"""Work on a large body, away from the event loop: whoever sends one waits for it, not everybody else.

A body of megabytes takes seconds to be understood. In a thread that work shares the interpreter with the loop a few
milliseconds at a time, and no more than two such bodies are at work at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 256 * 1024
"""Bytes above which a thread is worth its price: some ten milliseconds of work at the worst."""

_room = ThreadPoolExecutor(2, thread_name_prefix="large-body")


async def work(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function`` gives or raises; ``size`` is that of the body it works on, in bytes. It must be pure."""
    if size <= LARGE:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_room, lambda: function(*args, **kwargs))
