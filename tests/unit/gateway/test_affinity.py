from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from accounts.pool import Sticky
from core.redis_pipe import Pipe, PipeDown
from core.settings import Settings
from gateway.affinity import (
    HEADERS,
    PREFIX,
    Binding,
    Command,
    Identity,
    Origin,
    Session,
    ask,
    clear,
    identify,
    read,
)
from ir.request import Image, Message, Request, Text, ToolResult

NOW = 1_700_000_000.0
SETTINGS = Settings(sticky_ttl=3600, sticky_longest=86_400, sticky_grace=120)
HELLO = Message("user", (Text("hello"),))


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as client:
        yield client


def request(**fields: Any) -> Request:
    return Request(**{"model": "m", "messages": (HELLO,), "system": "be brief"} | fields)


def known(told: Request | None = None, headers: dict[bytes, bytes] | None = None, **fields: Any) -> Identity:
    whose: dict[str, Any] = {"team_id": 1, "key_id": 7, "model": "m-up", "secret": "pepper"} | fields
    return identify(told or request(), headers or {}, **whose)


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_names_the_session_before_everything_else(header: bytes) -> None:
    told = request(session="body", follows="a1")
    first = known(told, {header: b"s-1", b"user-agent": b"x"})
    assert first.origin is Origin.HEADER
    assert first == known(request(system="other"), {header: b" s-1 "})
    assert first != known(told, {header: b"s-2"})


def test_of_several_headers_the_first_of_the_list_counts() -> None:
    assert known(headers={b"session-id": b"b", b"x-session-id": b"a"}) == known(headers={b"x-session-id": b"a"})


def test_an_empty_header_names_nothing() -> None:
    assert known(headers={b"x-session-id": b" "}).origin is Origin.CONTENT


def test_the_body_comes_next_then_the_stored_answer_then_how_it_begins() -> None:
    assert known(request(session="s", follows="a1")).origin is Origin.BODY
    assert known(request(follows="a1")).origin is Origin.PREVIOUS
    assert known(request()).origin is Origin.CONTENT
    assert len({known(request(session="s")), known(request(follows="s")), known(request())}) == 3


def test_a_session_is_the_same_by_whatever_it_is_named() -> None:
    assert known(request(session="s")).name == known(headers={b"session-id": b"s"}).name


def test_a_conversation_goes_on_as_it_began() -> None:
    longer = (HELLO, Message("assistant", (Text("hi"),)), Message("user", (Text("and now?"),)))
    assert known(request(messages=longer)) == known()
    assert known(request(messages=(Message("assistant", (Text("hi"),)), *longer))) == known()


@pytest.mark.parametrize(
    "other",
    [
        {"system": "be long"},
        {"messages": (Message("user", (Text("hello!"),)),)},
        {"messages": (Message("user", (Text("hello"), Image("image/png", "AAAA"))),)},
        {"messages": (Message("user", (Text("hel"), Text("lo"))),)},
        {"messages": (Message("user", (ToolResult("call_1", "hello"),)),)},
        {"system": "be briefhello", "messages": (Message("user", (Text(""),)),)},
    ],
)
def test_what_begins_otherwise_is_another_conversation(other: dict[str, Any]) -> None:
    assert known(request(**other)).name != known().name


@pytest.mark.parametrize(
    "whose", [{"team_id": 2}, {"key_id": 8}, {"model": "other"}, {"secret": "salt"}, {"team_id": 17, "key_id": 1}]
)
@pytest.mark.parametrize("told", [request(), request(session="s"), request(follows="a1")])
def test_teams_keys_models_and_installations_share_nothing(whose: dict[str, Any], told: Request) -> None:
    assert known(told, **whose).name != known(told).name


def test_addresses_and_user_agents_tell_nothing() -> None:
    assert known(headers={b"user-agent": b"curl", b"x-forwarded-for": b"10.0.0.1"}) == known()


def test_the_answer_to_a_stored_turn_is_where_the_next_one_finds_its_way() -> None:
    first = known(answer_id="a1")
    second = known(request(follows="a1"), answer_id="a2")
    assert first.next_name == second.name
    assert second.next_name == known(request(follows="a2")).name
    assert known().next_name == ""


def test_who_names_the_session_needs_no_second_name() -> None:
    assert known(request(session="s"), answer_id="a1").next_name == ""
    assert known(headers={b"session-id": b"s"}, answer_id="a1").next_name == ""


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=50))
def test_a_name_is_the_key_s_id_and_a_digest_and_nothing_of_the_request(system: str, first: str, named: str) -> None:
    for told in (request(system=system, messages=(Message("user", (Text(first),)),)), request(session=named)):
        number, _, digest = known(told).name.partition("-")
        assert number == "7"
        assert len(digest) == 32
        assert set(digest) <= set("0123456789abcdef")
        assert known(told) == known(told)


@pytest.mark.parametrize(
    ("value", "binding"),
    [
        (b"3|1700000000|1700000100", Binding(3, 1_700_000_000, 1_700_000_100)),
        (None, None),
        (b"", None),
        (b"3|1700000000", None),
        (b"3|x|1", None),
        (b"3|-1|1", None),
        (b"3|1|1|1", None),
    ],
)
def test_only_what_was_written_here_is_read(value: bytes | None, binding: Binding | None) -> None:
    assert read(value) == binding


async def session_of(binding: str | None, *, next_name: str = "", settings: Settings = SETTINGS) -> Session:
    asked: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    asked.set_result(binding.encode() if binding is not None else None)
    session = Session(Identity("7-ab", Origin.HEADER, next_name), settings, asked)
    await session.hear(NOW)
    return session


def written(value: str, seconds: float, *how: str, name: str = "7-ab") -> Command:
    return ("SET", f"poolgate:sticky:{name}", value, "PX", int(seconds * 1000), *how)


HOUR_AGO, NOW_S = "1699996400", "1700000000"


@pytest.mark.parametrize(
    ("binding", "served", "rest", "expected"),
    [
        # nobody yet: bound to who served
        (None, 3, None, [written(f"3|{NOW_S}|{NOW_S}", 3600)]),
        # at home: for one more hour, unless it was cleared
        (f"3|{HOUR_AGO}|{HOUR_AGO}", 3, 0.0, [written(f"3|{HOUR_AGO}|{NOW_S}", 3600, "XX")]),
        # elsewhere for a short trouble: nothing changes
        (f"3|{HOUR_AGO}|{HOUR_AGO}", 4, 0.0, []),
        (f"3|{HOUR_AGO}|{HOUR_AGO}", 4, 120.0, []),
        # the home account rests for longer, or may not serve any more
        (f"3|{HOUR_AGO}|{HOUR_AGO}", 4, 120.5, [written(f"4|{NOW_S}|{NOW_S}", 3600)]),
        (f"3|{HOUR_AGO}|{HOUR_AGO}", 4, None, [written(f"4|{NOW_S}|{NOW_S}", 3600)]),
        # nobody is bound for more than a day: 40 minutes are left of it
        ("3|1699916000|1700000000", 3, 0.0, [written(f"3|1699916000|{NOW_S}", 2400, "XX")]),
        ("3|1699913600|1700000000", 3, 0.0, [written(f"3|{NOW_S}|{NOW_S}", 3600)]),
    ],
)
async def test_what_is_written_once_a_turn_was_served(
    binding: str | None, served: int, rest: float | None, expected: Sequence[Command]
) -> None:
    session = await session_of(binding)
    assert session.served(served, rest, NOW) == expected


async def test_the_next_turn_of_a_stored_conversation_finds_the_home_and_not_the_helper() -> None:
    session = await session_of(f"3|{HOUR_AGO}|{HOUR_AGO}", next_name="7-cd")
    assert session.served(4, 5.0, NOW) == [written(f"3|{HOUR_AGO}|{HOUR_AGO}", 3600, name="7-cd")]
    assert session.served(3, 0.0, NOW) == [
        written(f"3|{HOUR_AGO}|{NOW_S}", 3600, "XX"),
        written(f"3|{HOUR_AGO}|{NOW_S}", 3600, name="7-cd"),
    ]


async def test_selection_is_told_the_account_as_a_preference() -> None:
    assert (await session_of(f"3|{HOUR_AGO}|{HOUR_AGO}")).sticky == Sticky(3)
    assert (await session_of(None)).sticky is None
    assert (await session_of("3|1699913600|1700000000")).sticky is None  # its day is over


async def test_without_redis_nobody_is_bound() -> None:
    asked: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    asked.set_exception(PipeDown())
    session = Session(Identity("7-ab", Origin.HEADER), SETTINGS, asked)
    await session.hear(NOW)
    assert session.sticky is None


async def test_a_binding_comes_back_from_redis_and_a_cleared_one_is_not_revived(pipe: Pipe, client: Redis) -> None:
    identity = Identity("7-ab", Origin.HEADER)
    for command in (await session_of(None)).served(3, None, NOW):
        await pipe.call(*command)
    assert 3590 < client.ttl(PREFIX + "7-ab") <= 3600
    session = ask(identity, SETTINGS, pipe)
    assert session is not None
    await session.hear(NOW)
    assert session.binding == Binding(3, int(NOW), int(NOW))
    assert clear(client, name="7-ab") == 1
    for command in session.served(3, 0.0, NOW):
        await pipe.call(*command)
    assert client.exists(PREFIX + "7-ab") == 0


async def test_nothing_is_asked_where_conversations_stay_nowhere(pipe: Pipe) -> None:
    assert ask(None, SETTINGS, pipe) is None


def test_bindings_are_cleared_by_name_by_account_and_by_key(client: Redis) -> None:
    def fill() -> None:
        for name, value in (("7-a", "1|5|5"), ("7-b", "2|5|5"), ("71-a", "1|5|5"), ("8-c", "11|5|5")):
            client.set(PREFIX + name, value)

    def left() -> set[str]:
        return {bytes(key).decode().removeprefix(PREFIX) for key in client.scan_iter(PREFIX + "*")}

    fill()
    assert clear(client, name="7-b") == 1
    assert clear(client, name="7-b") == 0
    assert left() == {"7-a", "71-a", "8-c"}
    fill()
    assert clear(client, account_id=1) == 2
    assert left() == {"7-b", "8-c"}
    fill()
    assert clear(client, key_id=7) == 2
    assert left() == {"71-a", "8-c"}
    fill()
    assert clear(client, account_id=1, key_id=7) == 1
    assert left() == {"7-b", "71-a", "8-c"}


def test_a_name_with_a_pattern_in_it_clears_nothing_else(client: Redis) -> None:
    client.set(PREFIX + "7-a", "1|5|5")
    assert clear(client, name="*") == 0
    assert client.exists(PREFIX + "7-a") == 1
