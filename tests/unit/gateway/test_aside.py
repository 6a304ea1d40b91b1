from __future__ import annotations

import threading

import pytest

from gateway import aside
from ir.errors import ApiError, invalid


@pytest.mark.parametrize(("size", "same"), [(0, True), (aside.LARGE, True), (aside.LARGE + 1, False)])
async def test_only_a_large_body_is_worked_on_in_another_thread(size: int, same: bool) -> None:
    assert (await aside.work(size, threading.get_ident) == threading.get_ident()) is same


@pytest.mark.parametrize("size", [0, aside.LARGE + 1])
async def test_a_refusal_comes_back_as_it_was_raised(size: int) -> None:
    def refuse(word: str) -> None:
        raise invalid("bad", word)

    with pytest.raises(ApiError, match="a reason"):
        await aside.work(size, refuse, "a reason")
