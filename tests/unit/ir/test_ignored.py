from __future__ import annotations

from ir.ignored import MAX_NAMES, UNNAMED, list_ignored


def test_names_keep_their_order_and_come_once() -> None:
    assert list_ignored(["seed", "tools[1]", "seed", "output_config.effort"]) == (
        "seed",
        "tools[1]",
        "output_config.effort",
    )


def test_a_name_that_could_carry_text_or_break_a_header_is_not_repeated() -> None:
    assert list_ignored(["x\r\nset-cookie: a=b", "my password is hunter2", "a" * 65, ""]) == (UNNAMED,)


def test_the_list_is_bounded() -> None:
    assert len(list_ignored(f"field_{n}" for n in range(10_000))) == MAX_NAMES
