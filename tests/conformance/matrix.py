"""What each kind of upstream does for callers of each protocol.

``test_matrix`` proves this table cell by cell, and ``docs/conformance.md`` shows it: ``python -m
tests.conformance.matrix`` writes the page anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
INTRODUCTION = """\
# Conformance

What a caller of each protocol gets from each kind of upstream. Every cell is asked for over sockets, streamed and not,
by `tests/conformance/test_matrix.py`; the page is made from the same table by `python -m tests.conformance.matrix`.

Cloud Agents and text chat know nothing but text: tools and thinking go over the text bridge. A status is that of an
answer that is not streamed, or of a stream that has not begun. *In band*: in a stream that has begun the error comes in
the caller's protocol, after what was already sent."""


class Upstream(NamedTuple):
    """``model``: a name of the demo's that leads to this kind alone, and whose script a prompt may choose."""

    title: str
    transport: str
    model: str


UPSTREAMS = (
    Upstream("Agent RPC", "agent_rpc", "sim-echo"),
    Upstream("Cloud Agents", "cloud_agents", "cloud-sim-echo"),
    Upstream("text chat", "text_chat", "text-sim-echo"),
    Upstream("OpenAI Chat", "openai_chat", "openai-sim"),
    Upstream("OpenAI Responses", "openai_responses", "responses-sim"),
    Upstream("Anthropic Messages", "anthropic_messages", "anthropic-sim"),
)


class Protocol(StrEnum):
    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"


TITLES = {
    Protocol.CHAT: "Chat Completions",
    Protocol.RESPONSES: "Responses",
    Protocol.MESSAGES: "Messages",
    Protocol.GEMINI: "Gemini",
}


class Case(StrEnum):
    """What is asked for, or what goes wrong on the way."""

    TEXT = "text"
    TOOLS = "a call, then its result"
    PARALLEL = "parallel calls, then their results"
    DEMANDED = "a demanded call that the model makes"
    MISSING = "a demanded call that the model never makes"
    LENIENT = "the same, where the key is lenient"
    THINKING = "thinking"
    IMAGE = "an image"
    IMAGES = "six images"
    BEFORE = "an error before any output"
    AFTER = "an error after output"
    CUT = "the upstream's stream breaks off"
    GONE = "the caller leaves"


class Outcome(NamedTuple):
    """``status`` and ``code``: of an answer that is not streamed, and of the record. ``in_band``: in a stream the error
    comes after the output that was already sent, and the status stays 200."""

    status: int = 200
    code: str = ""
    in_band: bool = False
    remark: str = ""

    @property
    def words(self) -> str:
        if self.status == 200:
            return self.remark or "works"
        told = f"{self.status} `{self.code}`"
        return f"{told}; streamed: in band" if self.in_band else told


WORKS = Outcome()
HIDDEN = Outcome(remark="works, shown if the key says so")
INSTEAD = Outcome(remark="the text that came instead")
RESUMED = Outcome(remark="works: the stream is taken up again")
ENDS = Outcome(remark="the upstream's turn ends")
NOT_ON_GEMINI = Outcome(400, "unsupported_feature")

_TOOLS = (Case.TOOLS, Case.PARALLEL, Case.DEMANDED, Case.MISSING, Case.LENIENT)
_IMAGES = (Case.IMAGE, Case.IMAGES)

RULES: tuple[tuple[tuple[Case, ...], str, str, Outcome], ...] = (
    # cases, transport, protocol ("" is any), outcome: the first that fits counts
    ((*_TOOLS, *_IMAGES), "", Protocol.GEMINI, NOT_ON_GEMINI),
    (_IMAGES, "text_chat", "", Outcome(400, "unsupported_content_type")),
    ((Case.IMAGES,), "cloud_agents", "", Outcome(400, "too_many_images")),
    ((Case.CUT,), "cloud_agents", "", RESUMED),
    ((Case.THINKING,), "", Protocol.CHAT, HIDDEN),
    ((Case.MISSING,), "", "", Outcome(502, "upstream_missing_tool_call")),
    ((Case.LENIENT,), "", "", INSTEAD),
    ((Case.BEFORE,), "", "", Outcome(429, "rate_limit_exceeded")),
    ((Case.AFTER,), "", "", Outcome(502, "upstream_error", in_band=True)),
    ((Case.CUT,), "", "", Outcome(502, "upstream_incomplete", in_band=True)),
    ((Case.GONE,), "", "", ENDS),
    (tuple(Case), "", "", WORKS),
)


def expected(upstream: Upstream, protocol: Protocol, case: Case) -> Outcome:
    return next(
        outcome
        for cases, transport, asked_in, outcome in RULES
        if case in cases and transport in ("", upstream.transport) and asked_in in ("", protocol)
    )


def page() -> str:
    """The table as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for protocol in Protocol:
        yield ""
        yield f"## {TITLES[protocol]}"
        yield ""
        yield "| | " + " | ".join(upstream.title for upstream in UPSTREAMS) + " |"
        yield "|---" * (len(UPSTREAMS) + 1) + "|"
        for case in Case:
            cells = " | ".join(expected(upstream, protocol, case).words for upstream in UPSTREAMS)
            yield f"| {case} | {cells} |"


if __name__ == "__main__":
    PAGE.write_text(page())
