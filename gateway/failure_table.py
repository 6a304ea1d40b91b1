"""The failure tables in words: ``docs/failover.md``. Pure; what it says is read from the tables that are in force.

Three of them meet here, each total over ``Reason``: who is to blame (``ir.errors``), what follows
(``accounts.failures``), and what a caller is told when nobody could serve (``gateway.exhausted``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from accounts.failures import CONSEQUENCES, Consequence, Grain, Next, Rest
from gateway.exhausted import ROWS
from gateway.protocols.agent import classify as agent
from gateway.protocols.cloud import classify as cloud
from gateway.protocols.messages import faults as anthropic
from gateway.protocols.openai import classify as openai
from ir.errors import CULPRITS, Culprit, Kind, Reason
from protobufs.agent_v1_pb2 import ErrorCode

MEANINGS: Mapping[Reason, str] = {
    Reason.BAD_REQUEST: "the upstream calls the request wrong",
    Reason.CONTEXT_TOO_LONG: "the prompt does not fit the model's window",
    Reason.TOOLS_TOO_LARGE: "the tool definitions are too large",
    Reason.TOO_LARGE: "the request or an image is too large",
    Reason.IMAGE_UNSUPPORTED: "an image that the upstream does not take",
    Reason.UNSUPPORTED_PARAM: "a parameter that the model does not have",
    Reason.MODEL_UNKNOWN: "the upstream does not know the model, or blocks it",
    Reason.POLICY: "the upstream refuses the content",
    Reason.CLIENT_GONE: "the caller closed the connection",
    Reason.AUTH_EXPIRED: "the token was refused",
    Reason.AUTH_REVOKED: "the API key, or a fresh token, was refused",
    Reason.FORBIDDEN: "the account may not do that",
    Reason.PAYMENT: "an invoice is open, or the plan ended",
    Reason.QUOTA: "the account's usage limit is reached",
    Reason.DEVICE_LIMIT: "too many computers in a day",
    Reason.BLOCKED: "a block or an abuse notice",
    Reason.ACCOUNT_CLOSED: "the account was closed",
    Reason.MODEL_GATED: "the account's plan does not have the model",
    Reason.MODEL_LIMIT: "the limit of this one model is reached",
    Reason.RATE_LIMIT: "too many requests",
    Reason.EXHAUSTED: "something is used up, and the upstream does not say what",
    Reason.CAPACITY: "the upstream has no capacity",
    Reason.TRANSIENT: "a passing error: 5xx, reset, refused connection",
    Reason.TIMEOUT: "no output in time",
    Reason.CUT: "the answer broke off",
    Reason.EMPTY: "the answer was regular and empty",
    Reason.EGRESS: "the way out: a proxy, or a page of HTML from something in between",
    Reason.PROTOCOL: "an answer that nobody understands: our bug, or the upstream changed",
    Reason.CLIENT_OUTDATED: "the upstream asks for a newer client",
    Reason.BROKEN_TOOL_CALL: "the model made a tool call that is none",
    Reason.MISSING_TOOL_CALL: "a call was demanded and did not come",
    Reason.INVALID_OUTPUT: "the answer does not follow the schema asked for",
    Reason.INTERNAL: "our own fault with this account: its credential cannot be opened, its address is refused",
}

_ORDER = (
    Culprit.CALLER, Culprit.ACCOUNT, Culprit.ACCOUNT_MODEL, Culprit.EGRESS, Culprit.UPSTREAM, Culprit.GATEWAY,
)  # fmt: skip
_MOVES = {Next.SAME: "same account once more", Next.SWITCH: "another account", Next.STOP: "stop"}


def lines() -> Iterator[str]:
    """The page."""
    yield from (
        "# What follows from a failure",
        "",
        "Every failed attempt has one of these reasons. The rows are written from the tables that are in force:",
        "`manage.py failover docs > docs/failover.md`. How they play together is in [the pool](pool.md#failover).",
        "",
        "| reason | what happened | to blame | next | rests | the caller, when nobody could serve |",
        "|---|---|---|---|---|---|",
    )
    for reason in sorted(Reason, key=lambda reason: _ORDER.index(CULPRITS[reason])):
        yield _row(reason)
    yield from (
        "",
        "Status codes are those of OpenAI's protocols; Messages answers 529 for 503. `Retry-After` is the real time",
        "until an account can serve, where that is known, else the upstream's, else the seconds in brackets.",
        "*Held*: passed by for some seconds, until it is known who was to blame. After the first byte of content",
        "nothing is tried again: the error goes into the stream, and what it says about the account counts.",
        "A rest that doubles does so for each one that begins within ten minutes of the last one's end; faults that",
        "came together count once. Who comes back from a rest is tried with one request first.",
        "",
        "## Where reasons come from",
        "",
        "| reason | Agent RPC: numbers in details | Agent RPC: codes | Cloud Agents: codes | OpenAI | Anthropic |",
        "|---|---|---|---|---|---|",
    )
    yield from _sources()


def _row(reason: Reason) -> str:
    consequence, answer = CONSEQUENCES[reason], ROWS[reason]
    retry = f" ({answer.retry_after:g} s)" if answer.retry_after is not None else ""
    told = f"{_status(answer.kind)} `{answer.code}`{retry}" if reason is not Reason.CLIENT_GONE else "nobody is there"
    blame = CULPRITS[reason].value.replace("account_model", "account for the model")
    return f"| `{reason}` | {MEANINGS[reason]} | {blame} | {_next(consequence)} | {_rest(consequence)} | {told} |"


def _status(kind: Kind) -> int:
    return int(kind.value)


def _next(consequence: Consequence) -> str:
    words = [_MOVES[consequence.next]]
    if consequence.refresh_first:
        words.insert(0, "a fresh token")
    if consequence.next is Next.SAME:
        words.append(_MOVES[consequence.then])
    if consequence.switches is not None:
        words[-1] += f" (at most {consequence.switches})"
    return ", then ".join(words)


def _rest(consequence: Consequence) -> str:
    rest = consequence.rest
    if consequence.grain is Grain.EGRESS:
        return "the way out for 10 min, at the second within a minute"
    if rest is None:
        return "–"
    what = "the account" if consequence.grain is Grain.ACCOUNT else "the account for the model"
    if consequence.state is not None:
        return f"{what}, until somebody looks: *{consequence.state.value.replace('_', ' ')}*"
    words = [f"{what} {_time(rest)}"]
    if consequence.escalation is not None:
        escalation = consequence.escalation
        times = f"the {escalation.times}rd within {_duration(escalation.window)}"
        words.append(f"{times}: *{escalation.state.value}*, until somebody looks")
    if rest.tentative:
        words.append("held until another account has answered" if rest.hold else "once another account has answered")
    return "; ".join(words)


def _time(rest: Rest) -> str:
    if rest.strikes > 1:
        return f"{_duration(rest.seconds)} at the second within {_duration(rest.window)}, then {_duration(rest.then)}"
    own = _duration(rest.seconds)
    if rest.spread:
        own = f"{rest.seconds * (1 - rest.spread):g} to {rest.seconds * (1 + rest.spread):g} s"
    if rest.growing_to:
        own = f"{own}, doubling up to {_duration(rest.growing_to)}"
    return f"as long as the upstream says, else {own}" if rest.longest_hint else own


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _sources() -> Iterator[str]:
    numbers, codes, cloud_codes, openai_codes, anthropic_types = (
        defaultdict[Reason, list[str]](list) for _ in range(5)
    )
    for number, reason in agent.BY_ENUM.items():
        name = ErrorCode.Name(number).removeprefix("ERROR_").lower()
        numbers[reason].append(f"{number} {name}")
    for title, reason in agent.BY_TITLE:
        numbers[reason].append(f"“{title}”")
    for code, reason in agent.BY_CODE.items():
        codes[reason].append(code)
    for code, reason in cloud.BY_CODE.items():
        cloud_codes[reason].append(code)
    for code, reason in {**openai.BY_TYPE, **openai.BY_CODE}.items():  # a code before a type of the same name
        openai_codes[reason].append(code)
    for code, reason in anthropic.TYPES.items():
        anthropic_types[reason].append(code)
    for reason in Reason:
        found = [table[reason] for table in (numbers, codes, cloud_codes, openai_codes, anthropic_types)]
        if any(found):
            yield f"| `{reason}` | " + " | ".join(", ".join(one) or "–" for one in found) + " |"
