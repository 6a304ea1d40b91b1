"""Images over every protocol that takes them: what arrives is byte for byte what was sent, and each limit holds at its
boundary."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.conformance import wire
from tests.conformance.caller import EVERY, Caller, image, text
from tests.plugins.house import House

MIB = 1024 * 1024
HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x24\x00\x00\x00WEBP",
}
TOO_LARGE = {
    "chat": ("invalid_request_error", "messages"),
    "messages": ("request_too_large", None),
    "responses": ("invalid_request_error", "input"),
}

pytestmark = [pytest.mark.usefixtures("calm"), pytest.mark.parametrize("protocol", EVERY)]


def picture(media_type: str, size: int, filler: int = 0) -> bytes:
    """``size`` bytes that begin as that type does."""
    return HEADS[media_type].ljust(size, bytes([filler]))


def shown(protocol: str, *pictures: tuple[str, bytes], words: str = "Look.") -> list[dict[str, Any]]:
    """One user message with the pictures behind a text."""
    parts = [image(protocol, media_type, base64.b64encode(data).decode()) for media_type, data in pictures]
    return [{"role": "user", "content": [text(protocol, words), *parts]}]


def lines(*pictures: tuple[str, bytes]) -> list[str]:
    return [f"{media_type} {len(data)} {hashlib.sha256(data).hexdigest()}" for media_type, data in pictures]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_images_of_every_type_arrive_unchanged_and_in_order(caller: Caller, protocol: str, stream: bool) -> None:
    pictures = [(media_type, picture(media_type, 100 + number, number)) for number, media_type in enumerate(HEADS)]
    turn = caller.ask(protocol, "sim-image", shown(protocol, *pictures), stream=stream)
    assert turn.text.splitlines() == lines(*pictures)


def test_images_survive_an_upstream_that_stores_and_reads_them(caller: Caller, protocol: str) -> None:
    pictures = [("image/png", picture("image/png", 5000)), ("image/webp", picture("image/webp", 70))]
    turn = caller.ask(protocol, "sim-image-assets", shown(protocol, *pictures))
    assert turn.text.splitlines() == lines(*pictures)


def test_an_image_of_an_earlier_message_stays_in_the_history(caller: Caller, calm: House, protocol: str) -> None:
    one = ("image/png", picture("image/png", 300))
    history = [*shown(protocol, one), {"role": "assistant", "content": "I see."}, {"role": "user", "content": "And?"}]
    assert caller.ask(protocol, "sim-image", history).text == "No image."
    [seen] = calm.simulator.runs()[0]["images"]
    assert (seen["mime_type"], seen["bytes"]) == ("image/png", 300)
    assert seen["sha256"] == hashlib.sha256(one[1]).hexdigest()


def test_twenty_images_pass_and_one_more_is_refused(caller: Caller, calm: House, protocol: str) -> None:
    one = ("image/gif", picture("image/gif", 64))
    turn = caller.ask(protocol, "sim-image", shown(protocol, *[one] * 20))
    assert turn.text.splitlines() == lines(*[one] * 20)
    refused(caller, calm, protocol, shown(protocol, *[one] * 21), "image_count_exceeded", 21, 20)


def test_images_of_the_history_count_too(caller: Caller, calm: House, protocol: str) -> None:
    one = ("image/gif", picture("image/gif", 64))
    history = [*shown(protocol, *[one] * 20), {"role": "assistant", "content": "I see."}, *shown(protocol, one)]
    refused(caller, calm, protocol, history, "image_count_exceeded", 21, 20)


def test_an_image_of_five_mebibytes_passes_and_one_byte_more_is_refused(
    caller: Caller, calm: House, protocol: str
) -> None:
    whole = ("image/png", picture("image/png", 5 * MIB))
    assert caller.ask(protocol, "sim-image", shown(protocol, whole)).text.splitlines() == lines(whole)
    over = ("image/png", picture("image/png", 5 * MIB + 1))
    refused(caller, calm, protocol, shown(protocol, over), "image_too_large", 5 * MIB + 1, 5 * MIB)


def test_six_mebibytes_together_pass_and_one_byte_more_is_refused(caller: Caller, calm: House, protocol: str) -> None:
    half = ("image/jpeg", picture("image/jpeg", 3 * MIB))
    assert caller.ask(protocol, "sim-image", shown(protocol, half, half)).text.splitlines() == lines(half, half)
    over = ("image/jpeg", picture("image/jpeg", 3 * MIB + 1))
    refused(caller, calm, protocol, shown(protocol, half, over), "image_total_exceeded", 6 * MIB + 1, 6 * MIB)


def refused(
    caller: Caller, house: House, protocol: str, messages: list[dict[str, Any]], code: str, actual: int, limit: int
) -> None:
    """A 413 that names limit and actual value; nothing reached an account."""
    before = len(house.simulator.runs())
    answer = caller.post(protocol, "sim-image", messages)
    kind, param = TOO_LARGE[protocol]
    assert wire.read_error(answer) == (413, kind, None if protocol == "messages" else code, param)
    message = answer.json()["error"]["message"]
    assert str(actual) in message
    assert str(limit) in message
    assert answer.headers["x-should-retry"] == "false"
    assert len(house.simulator.runs()) == before


BROKEN = {
    "not Base64": ("image/png", "!!!!"),
    "no padding": ("image/png", base64.b64encode(picture("image/png", 64)).decode().rstrip("=")),
    "white space": ("image/png", base64.b64encode(picture("image/png", 63)).decode() + "\n   "),
    "nothing": ("image/png", ""),
    "another type": ("image/png", base64.b64encode(picture("image/gif", 63)).decode()),
    "a type of its own": ("image/bmp", base64.b64encode(b"BM".ljust(63)).decode()),
    "a parameter": ("image/png;charset=x", base64.b64encode(picture("image/png", 63)).decode()),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_image_is_a_400_that_shows_nothing_of_it(
    caller: Caller, calm: House, protocol: str, case: str
) -> None:
    media_type, encoded = BROKEN[case]
    before = len(calm.simulator.runs())
    messages = [{"role": "user", "content": [image(protocol, media_type, encoded)]}]
    answer = caller.post(protocol, "sim-image", messages)
    status, kind, code, _ = wire.read_error(answer)
    assert (status, kind) == (400, "invalid_request_error")
    assert code == (None if protocol == "messages" else "invalid_image")
    assert not encoded or encoded not in answer.text
    assert len(calm.simulator.runs()) == before


def test_an_address_is_never_fetched(caller: Caller, protocol: str) -> None:
    address = "http://127.0.0.1:9/secret.png"
    part: dict[str, Any] = {"type": "image", "source": {"type": "url", "url": address}}
    if protocol == "chat":
        part = {"type": "image_url", "image_url": {"url": address}}
    if protocol == "responses":
        part = {"type": "input_image", "image_url": address}
    answer = caller.post(protocol, "sim-image", [{"role": "user", "content": [part]}])
    status, kind, code, _ = wire.read_error(answer)
    assert (status, kind) == (400, "invalid_request_error")
    assert code == (None if protocol == "messages" else "unsupported_image_source")
    assert "secret" not in answer.text


def test_an_image_in_a_tool_result_is_shown_to_the_model(caller: Caller, protocol: str) -> None:
    one = ("image/png", picture("image/png", 300))
    part = image(protocol, one[0], base64.b64encode(one[1]).decode())
    history: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    if protocol == "chat":
        call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        history += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t1", "content": [part]},
        ]
    elif protocol == "responses":
        history += [
            {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t1", "output": [part]},
        ]
    else:
        use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [part]}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    assert caller.ask(protocol, "sim-image", history).text.splitlines() == lines(one)
