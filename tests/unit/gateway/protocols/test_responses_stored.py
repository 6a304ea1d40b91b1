from __future__ import annotations

from typing import Any

import orjson
import pytest
from openai.types.responses import ResponseItemList

from gateway.protocols.responses import server
from gateway.protocols.responses.stored import Page
from ir.errors import ApiError

ITEMS = server.input_items({"input": [{"role": "user", "content": str(number)} for number in range(5)]}, "r1")


def listed(**query: str) -> dict[str, Any]:
    page: dict[str, Any] = orjson.loads(server.encode_items(ITEMS, server.decode_page(query)))
    ResponseItemList.model_validate(page)
    return page


def numbers(page: dict[str, Any]) -> list[str]:
    return [item["content"][0]["text"] for item in page["data"]]


def test_the_newest_items_come_first_and_all_fit_on_a_page() -> None:
    page = listed()
    assert numbers(page) == ["4", "3", "2", "1", "0"]
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("in_r1_4", "in_r1_0", False)


@pytest.mark.parametrize(
    ("order", "expected"), [("asc", ["0", "1", "2", "3", "4"]), ("desc", ["4", "3", "2", "1", "0"])]
)
def test_pages_one_after_the_other_hold_every_item_once(order: str, expected: list[str]) -> None:
    seen: list[str] = []
    query = {"order": order, "limit": "2"}
    while True:
        page = listed(**query)
        seen += numbers(page)
        if not page["has_more"]:
            break
        query["after"] = page["last_id"]
    assert seen == expected


def test_a_page_behind_the_last_item_is_empty() -> None:
    page = orjson.loads(server.encode_items(ITEMS, Page(after="in_r1_0")))
    assert page == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "x"}, "after"),
    ],
)
def test_a_wrong_query_is_refused_by_name(query: dict[str, str], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        listed(**query)
    assert (caught.value.code, caught.value.param) == ("invalid_value", param)


def test_a_deletion_is_confirmed_under_the_response_s_id() -> None:
    assert server.encode_deleted("resp_1") == b'{"id":"resp_1","object":"response","deleted":true}'
