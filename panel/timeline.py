"""A decision trace as sentences, in the order of time. Pure.

Accounts are named for the operator alone; everybody else reads of "account 1" and "account 2", in the order in which
they come up, and nothing of transports or of what the upstream said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from accounts.failures import Next
from gateway.affinity import Origin
from ops.trace import (
    Affinity,
    AnyStep,
    Committed,
    Ended,
    Fallback,
    Judged,
    Look,
    Mark,
    Moved,
    Passed,
    Trace,
    Tried,
    Trouble,
    Troubled,
    Verdict,
)
from panel.formats import milliseconds, words

CANDIDATES_SHOWN = 12

TROUBLES: Mapping[Trouble, str] = {
    Trouble.CIRCUIT_OPENED: "The upstream's circuit was opened: too many attempts failed",
    Trouble.CIRCUIT_CLOSED: "The upstream's circuit was closed: it answers again",
    Trouble.CANARY_GRANTED: "The upstream's circuit is open; this request may try it",
    Trouble.CANARY_REFUSED: "The upstream's circuit is open; another request is trying it",
    Trouble.BUDGET_SPENT: "No further attempt: this process has made as many retries as it may",
}
KNOWN_BY: Mapping[str, str] = {
    Origin.HEADER: "a header of its client",
    Origin.BODY: "what its body says",
    Origin.PREVIOUS: "the answer that it goes on from",
    Origin.CONTENT: "how it begins",
}
AFFINITIES: Mapping[Affinity, str] = {
    Affinity.NONE: "",
    Affinity.STICKY: " The conversation has an account it prefers.",
    Affinity.HARD: " The conversation is bound to one account.",
}
MOVES: Mapping[Next, str] = {
    Next.SAME: "Next: the same account once more",
    Next.SWITCH: "Next: another account",
    Next.STOP: "No further attempt",
}


class Moment(Struct, frozen=True):
    """One line: when, what, more about it, and the colour of its mark ("" for a plain one)."""

    at: str
    text: str
    more: tuple[str, ...] = ()
    colour: str = ""


class Timeline(Struct, frozen=True):
    summary: str
    moments: tuple[Moment, ...]
    left_out: str = ""


class Names:
    """What accounts are called on this page. ``known``: the names that this visitor may see; None: none of them."""

    def __init__(self, known: Mapping[int, str] | None) -> None:
        self.shown = known is not None
        self._names = dict(known or {})

    def __call__(self, account: int) -> str:
        if self.shown:
            return self._names.get(account, "a deleted account")
        return self._names.setdefault(account, f"account {len(self._names) + 1}")


def accounts_of(trace: Trace) -> set[int]:
    """Every account that the trace mentions."""
    found: set[int] = set()
    for step in trace.steps:
        match step:
            case Look():
                found.update({step.account}, {passed.account for passed in step.passed})
            case Tried() | Fallback():
                found.add(step.account)
            case Judged():
                found.update(step.accounts)
            case _:
                pass
    return found - {0}


def tell(trace: Trace, known: Mapping[int, str] | None) -> Timeline:
    """``known``: the names by id, for a visitor who may see them."""
    names = Names(known)
    moments = [_moment(step, names) for step in sorted(trace.steps, key=lambda step: step.at)]
    many = "one account" if trace.candidates == 1 else f"{trace.candidates} accounts"
    left_out = []
    if trace.passed_left_out:
        left_out.append(f"{trace.passed_left_out} accounts that were looked at")
    if trace.steps_left_out:
        left_out.append(f"{trace.steps_left_out} steps in the middle")
    by = KNOWN_BY.get(trace.known_by or "")
    talk = f" Conversation {trace.conversation}, known by {by}." if by else ""
    return Timeline(
        f"The model is served by {many} that this team may use.{talk}{AFFINITIES[trace.affinity]}",
        tuple(moments),
        f"Left out for want of room: {' and '.join(left_out)}." if left_out else "",
    )


def _moment(step: AnyStep, names: Names) -> Moment:
    at = milliseconds(step.at)
    match step:
        case Look():
            return _look(step, names, at)
        case Tried():
            return _tried(step, names, at)
        case Moved():
            pause = f", after a pause of {milliseconds(step.paused)}" if step.paused else ""
            return Moment(at, f"{MOVES[step.next]}{pause}.")
        case Fallback():
            way = f" by {words(step.transport)}" if names.shown else " by its second way"
            return Moment(at, f"Next: {names(step.account)} once more{way}.")
        case Judged():
            return Moment(at, _judged(step, names))
        case Troubled():
            seconds = f" ({step.seconds:.0f} s)" if step.seconds else ""
            return Moment(at, f"{TROUBLES[step.trouble]}{seconds}.", colour="orange")
        case Committed():
            return Moment(at, "The answer began: from here on nothing can be tried elsewhere.", colour="green")
        case Ended():
            return _ended(step, at)


def _look(step: Look, names: Names, at: str) -> Moment:
    waited = f" after waiting {milliseconds(step.waited)}" if step.waited else ""
    name = names(step.account) if step.account else ""  # before the others, so that the chosen one has the low number
    more = _passed(step.passed, names)
    if step.account:
        load = f", which had {step.load} others to serve" if step.load else ""
        trial = " This request is the trial after its rest." if step.canary else ""
        if step.terms:
            more = (", ".join(f"{words(name)} {value:.2f}" for name, value in step.terms.items()), *more)
        why = f" ({words(step.why)})" if step.why else ""
        return Moment(at, f"Chosen{waited}: {name}{why}{load}.{trial}", more)
    soonest = f"; the first may serve in {step.soonest:.1f} s" if step.soonest is not None else ""
    return Moment(at, f"No account to be had{waited}: {words(step.why or 'unknown')}{soonest}.", more, "red")


def _passed(passed: Iterable[Passed], names: Names) -> tuple[str, ...]:
    lines = [_pass(item, names) for item in passed]
    more = len(lines) - CANDIDATES_SHOWN
    return (*lines[:CANDIDATES_SHOWN], f"and {more} others") if more > 0 else tuple(lines)


def _pass(item: Passed, names: Names) -> str:
    seconds = f", for {item.seconds:.1f} s more" if item.seconds else ""
    return f"{names(item.account)} was not taken: {words(item.verdict)}{seconds}"


def _tried(step: Tried, names: Names, at: str) -> Moment:
    took = milliseconds(step.took)
    way = f" by {words(step.transport)}" if names.shown else ""
    asked = f"was given the results on the stream that it had kept{way}" if step.resumed else f"was asked{way}"
    if step.reason is None:
        return Moment(at, f"{_capital(names(step.account))} {asked} and answered ({took}).", colour="green")
    code = f" ({step.code})" if step.code and names.shown else ""
    stage = f" at {words(step.stage)}" if step.stage else ""
    text = f"{_capital(names(step.account))} {asked} and failed{stage}: {words(step.reason)}{code} ({took})."
    more = [f"To blame: {words(step.culprit)}"] if step.culprit and names.shown else []
    mark = _mark(step)
    return Moment(at, text, (*more, mark) if mark else tuple(more), "red")


def _mark(step: Tried) -> str:
    marks: Mapping[Mark, Callable[[], str]] = {
        Mark.NONE: lambda: "",
        Mark.RESTED: lambda: f"The account rests for {step.rest:.0f} s",
        Mark.HELD: lambda: f"It is not known yet who is to blame{_left_alone(step.rest)}",
        Mark.GUARDED: lambda: "The account does not rest: too few others would have been left",
        Mark.EGRESS: lambda: f"Its way out rests for {step.rest:.0f} s: it failed twice within a minute",
        Mark.UNKNOWN: lambda: "The account was not marked: the state store did not answer",
    }
    return marks[step.mark]()


def _left_alone(rest: float) -> str:
    return f": the account is left alone for {rest:.0f} s" if rest else ""


def _judged(step: Judged, names: Names) -> str:
    accounts = " and ".join(names(account) for account in step.accounts)
    if step.verdict is Verdict.CONFIRMED:
        return f"Another account answered, so the earlier fault was the account's own: {accounts}."
    return f"All accounts failed alike, so none is to blame: {accounts} may serve again."


def _ended(step: Ended, at: str) -> Moment:
    code = f", {step.code}" if step.code else ""
    retry = f"; to be asked again after {step.retry_after:.0f} s" if step.retry_after else ""
    memory = " The same request was refused by all accounts a moment ago; nobody was asked." if step.remembered else ""
    good = step.status == 200 and not step.code
    return Moment(at, f"The caller got {step.status}{code}{retry}.{memory}", colour="green" if good else "red")


def _capital(name: str) -> str:
    return name if not name.startswith(("account ", "a deleted")) else name[0].upper() + name[1:]
