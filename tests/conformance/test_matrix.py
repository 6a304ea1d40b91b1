"""Every kind of upstream for callers of every protocol, over sockets, on the simulator: the table of ``matrix``.

The script is chosen by a marker in the prompt, so that one model a kind is enough. What the caller is shown is checked
at once, what the records say when the module is through.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.conformance import wire
from tests.conformance.caller import CALLED, STOPPED, Caller
from tests.conformance.matrix import PAGE, UPSTREAMS, Case, Outcome, Protocol, Upstream, expected, page
from tests.conformance.wire_responses import read_response
from tests.functional.turns import CHAT, MESSAGES, PNG, RESPONSES, Turn, body_of, piece
from tests.plugins.gemini import Google, chunks
from tests.plugins.house import House, eventually

PATHS = {Protocol.CHAT: CHAT, Protocol.RESPONSES: RESPONSES, Protocol.MESSAGES: MESSAGES}
READ: dict[Protocol, Callable[[httpx2.Response], wire.Turn]] = {
    Protocol.CHAT: wire.read_chat,
    Protocol.RESPONSES: read_response,
    Protocol.MESSAGES: wire.read_message,
}
DEMAND: dict[Protocol, Any] = {
    Protocol.CHAT: "required",
    Protocol.RESPONSES: "required",
    Protocol.MESSAGES: {"type": "any"},
}
CITY = '{"city":"city"}'
UNHEARD = "-ask-"
"""A tool that the simulated models do not call of themselves when the reminder names it."""
RECORDED = ("status", "code", "outcome", "transport")

Expect = Callable[[httpx2.Response, tuple[Any, ...]], None]


@pytest.fixture(scope="module")
def remember(house_process: House) -> Iterator[Expect]:
    """``remember(reply, record)``: what the record of that answer has to say, in the order of ``RECORDED``."""
    wanted: dict[str, tuple[Any, ...]] = {}
    asked: dict[str, str] = {}

    def expect(reply: httpx2.Response, record: tuple[Any, ...]) -> None:
        name = reply.headers["x-request-id"]
        wanted[name], asked[name] = record, os.environ["PYTEST_CURRENT_TEST"]

    def rows() -> list[dict[str, Any]] | None:
        found = house_process.records("request_id = ANY(%s)", list(wanted))
        return found if len(found) == len(wanted) else None

    yield expect
    if wanted:
        found = eventually(rows, 15)
        said = {row["request_id"]: tuple(row[name] for name in RECORDED) for row in found}
        assert [(asked[name], said[name], wanted[name]) for name in wanted if said[name] != wanted[name]] == []


class Cell:
    """One kind of upstream, asked in one protocol."""

    def __init__(self, caller: Caller, house: House, upstream: Upstream, protocol: Protocol, remember: Expect) -> None:
        self.http, self.house = caller.http, house
        self.upstream, self.protocol = upstream, protocol
        self._remember = remember

    def address(self, turn: Turn) -> tuple[str, dict[str, Any]]:
        """Path and body."""
        if self.protocol is not Protocol.GEMINI:
            path = PATHS[self.protocol]
            return path, body_of(path, self.upstream.model, turn)
        action = "streamGenerateContent?alt=sse" if turn.stream else "generateContent"
        return f"/v1beta/models/{self.upstream.model}:{action}", _gemini_body(turn)

    def post(self, turn: Turn, outcome: Outcome = Outcome()) -> httpx2.Response:  # noqa: B008 frozen
        path, body = self.address(turn)
        reply = self.http.post(path, json=body)
        committed = turn.stream and outcome.in_band
        assert reply.status_code == (200 if committed else _shown(self.protocol, outcome.status)), reply.text
        refused = outcome.status == 400
        ending = "ok" if outcome.status == 200 else "client_error" if refused else "upstream_error"
        self._remember(
            reply,
            (
                200 if committed else reply.status_code, outcome.code, "interrupted" if committed else ending,
                "" if refused else self.upstream.transport,
            ),
        )  # fmt: skip
        return reply

    def ask(self, turn: Turn, outcome: Outcome = Outcome()) -> wire.Turn:  # noqa: B008 frozen
        """The answer, read strictly."""
        reply = self.post(turn, outcome)
        return _read_gemini(reply) if self.protocol is Protocol.GEMINI else READ[self.protocol](reply)

    def refused(self, turn: Turn, outcome: Outcome) -> None:
        """The request is refused, with the same words whether a stream is wanted or not."""
        before = self.house.simulator.log()
        for turn.stream in (False, True):
            reply = self.post(turn, outcome)
            assert reply.headers["content-type"] == "application/json"
            assert reply.json()["error"]["message"]
        if outcome.status == 400:
            assert self.house.simulator.log() == before

    def leave(self, turn: Turn) -> None:
        """Closes the connection at the first words."""
        turn.stream = True
        path, body = self.address(turn)
        with self.http.stream("POST", path, json=body) as reply:
            frames = (json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: {"))
            next(frame for frame in frames if self._words(path, frame))
        self._remember(reply, (499, "", "client_gone", self.upstream.transport))

    def _words(self, path: str, frame: Any) -> str:
        return _gemini_text([frame]) if self.protocol is Protocol.GEMINI else piece(path, frame)

    def ended(self) -> str | None:
        """How the newest run at this kind of upstream ended."""
        log = self.house.simulator.log()
        name = {"agent_rpc": "run_sse"}.get(self.upstream.transport, self.upstream.transport)
        ended: str | None = next(entry["ended"] for entry in log if entry["transport"] == name)
        return ended


@pytest.fixture(params=UPSTREAMS, ids=[upstream.transport for upstream in UPSTREAMS])
def upstream(request: pytest.FixtureRequest) -> Upstream:
    asked: Upstream = request.param
    return asked


@pytest.fixture(params=Protocol)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    asked: Protocol = request.param
    return asked


@pytest.fixture(scope="module")
def gate(house_process: House, shared_google: Google, quick_calls: None) -> None:
    """The Gemini endpoints are open. Afterwards ``shared_google`` closes them."""
    house_process.set(gemini_native_enabled=True)


@pytest.fixture(scope="module")
def lenient(house_process: House) -> Iterator[Caller]:
    """A caller whose key takes a text where it demanded a call."""
    words = ("--team", "demo", "--name", "lenient-cells", "--tool-choice-outcome", "lenient")
    caller = Caller(house_process.url, house_process.manage("issue_key", *words).strip())
    with caller.http:
        yield caller


@pytest.fixture
def cell(
    gate: None, house_process: House, caller: Caller, upstream: Upstream, protocol: Protocol, remember: Expect
) -> Cell:
    house_process.simulator.reset()
    return Cell(caller, house_process, upstream, protocol, remember)


def script(name: str, **more: Any) -> Turn:
    return Turn(f"SCRIPT {name} END", **more)


def demanding(protocol: Protocol, turn: Turn) -> Turn:
    turn.more = {"tool_choice": DEMAND[protocol]} if protocol in DEMAND else {}
    return turn


def test_text(cell: Cell) -> None:
    outcome = expected(cell.upstream, cell.protocol, Case.TEXT)
    whole = cell.ask(Turn("SAYTEXT one two  three END"), outcome)
    streamed = cell.ask(Turn("SAYTEXT one two  three END", stream=True), outcome)
    assert whole.text == streamed.text == "one two  three"
    assert whole.finish == streamed.finish == {**STOPPED, Protocol.GEMINI: "STOP"}[cell.protocol]


@pytest.mark.parametrize("case", [Case.TOOLS, Case.PARALLEL])
def test_calls_and_their_results(cell: Cell, case: Case) -> None:
    names = ("weather",) if case is Case.TOOLS else ("weather", "news")
    outcome = expected(cell.upstream, cell.protocol, case)
    turn = script(f"sim-tools-{len(names)}", tools=names)
    if outcome.status != 200:
        cell.refused(turn, outcome)
        return
    for turn.stream in (False, True):
        answer = cell.ask(turn, outcome)
        assert [name for _, name, _ in answer.calls] == list(names)
        assert answer.arguments == [{"city": "city"}] * len(names)
        assert answer.finish == CALLED[cell.protocol]
    turn.calls = tuple((name, CITY) for name in names)
    turn.results = tuple(f"<{name}> & more" for name in names)
    for turn.stream in (False, True):
        assert cell.ask(turn, outcome).text == "\n".join(f"Result: {text}" for text in turn.results)


def test_a_demanded_call_comes(cell: Cell) -> None:
    outcome = expected(cell.upstream, cell.protocol, Case.DEMANDED)
    turn = demanding(cell.protocol, script("sim-text-tool", tools=("weather",)))
    if outcome.status != 200:
        cell.refused(turn, outcome)
        return
    for turn.stream in (False, True):
        assert [name for _, name, _ in cell.ask(turn, outcome).calls] == ["weather"]


@pytest.mark.parametrize("case", [Case.MISSING, Case.LENIENT])
def test_a_demanded_call_that_never_comes_is_missed_as_the_key_says(cell: Cell, lenient: Caller, case: Case) -> None:
    outcome = expected(cell.upstream, cell.protocol, case)
    turn = demanding(cell.protocol, script("sim-lorem-5", tools=(UNHEARD,)))
    if case is Case.LENIENT:
        cell.http = lenient.http
    if outcome.status != 200:
        cell.refused(turn, outcome)
        return
    for turn.stream in (False, True):
        answer = cell.ask(turn, outcome)
        assert answer.text
        assert (answer.calls, answer.finish) == ([], STOPPED[cell.protocol])


def test_thinking(cell: Cell) -> None:
    outcome = expected(cell.upstream, cell.protocol, Case.THINKING)
    turn = Turn("SAYTEXT done END", thinking=True)
    for turn.stream in (False, True):
        answer = cell.ask(turn, outcome)
        assert answer.text == "done"
        assert answer.thinking == ("" if outcome.remark else "Let me think about it.")


@pytest.mark.parametrize("case", [Case.IMAGE, Case.IMAGES])
def test_images(cell: Cell, case: Case) -> None:
    outcome = expected(cell.upstream, cell.protocol, case)
    turn = script("sim-image", images=1 if case is Case.IMAGE else 6)
    if outcome.status != 200:
        cell.refused(turn, outcome)
    else:
        assert cell.ask(turn, outcome).text.count("image/png 70 ") == turn.images


def test_an_error_before_any_output_is_a_status(cell: Cell) -> None:
    outcome = expected(cell.upstream, cell.protocol, Case.BEFORE)
    turn = script("sim-error-rate_limited_hint")
    for turn.stream in (False, True):
        cell.house.forget_rests()
        reply = cell.post(turn, outcome)
        assert int(reply.headers["retry-after"]) in (6, 7, 8)
    cell.house.forget_rests()


@pytest.mark.parametrize("case", [Case.AFTER, Case.CUT])
def test_an_end_that_is_none_is_never_a_short_success(cell: Cell, case: Case) -> None:
    outcome = expected(cell.upstream, cell.protocol, case)
    turn = script("sim-error-internal-after-3" if case is Case.AFTER else "sim-cut-3", stream=True)
    streamed = cell.ask(turn, outcome)
    assert len(streamed.text.split()) == 3
    assert bool(streamed.error) is outcome.in_band
    turn.stream = False
    if outcome.in_band:
        assert cell.post(turn, outcome).json()["error"]["message"]
    else:
        assert cell.ask(turn, outcome).text == streamed.text


def test_a_caller_that_leaves_ends_the_upstreams_turn(cell: Cell) -> None:
    assert expected(cell.upstream, cell.protocol, Case.GONE).status == 200
    cell.leave(script("sim-slow-200"))
    eventually(lambda: cell.ended() == "cancelled", 2)
    eventually(lambda: cell.house.slots_in_use() == 0, 2)


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.conformance.matrix"


def _shown(protocol: Protocol, status: int) -> int:
    """The status that a protocol has for one of ours."""
    return 529 if (protocol, status) == (Protocol.MESSAGES, 503) else status


def _gemini_body(turn: Turn) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": turn.text}]
    parts += [{"inlineData": {"mimeType": "image/png", "data": PNG}}] * turn.images
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": parts}]}
    if turn.tools:
        body["tools"] = [{"functionDeclarations": [{"name": name} for name in turn.tools]}]
    if turn.thinking:
        body["generationConfig"] = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048}}
    return body


def _read_gemini(reply: httpx2.Response) -> wire.Turn:
    streamed = reply.headers["content-type"].startswith("text/event-stream")
    answers = chunks(reply) if streamed else [reply.json()]
    turn = wire.Turn()
    if "error" in answers[-1]:
        turn.error = answers.pop()["error"]
    else:
        turn.finish = answers[-1]["candidates"][0]["finishReason"]
    turn.text, turn.thinking = _gemini_text(answers), _gemini_text(answers, thought=True)
    return turn


def _gemini_text(answers: list[Any], *, thought: bool = False) -> str:
    parts = [part for answer in answers for part in answer["candidates"][0].get("content", {}).get("parts", ())]
    return "".join(part["text"] for part in parts if part.get("thought", False) is thought)
