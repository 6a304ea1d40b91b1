"""Every way in which an upstream fails, before and after output: who is asked, what the caller is told, which account
rests and for how long. The accounts are asked in the order alpha, beta, gamma."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from ir.errors import Reason
from ops.trace import Ended, Judged, Mark, Trace, Tried, Verdict, read
from tests.functional.callers import CHAT, MESSAGES, ask, error_of, streaming, text_of, unwrap
from tests.plugins.house import House, eventually

MODEL = "sim-lorem-%d"
"""Each trial has its own: what many trials in a row met would open the circuit of a model."""

MINUTE, HOUR = 60, 3600


@dataclass(frozen=True)
class Row:
    """What a cause leads to when every account fails with it. ``asked`` are accounts, ``rest`` is what rests ("*" the
    account, "model" the account for that model, "" nothing) for about ``seconds``.
    With ``alike`` nothing rests where every account refused."""

    reason: str
    status: int
    code: str
    asked: int
    rest: str = ""
    seconds: float = 0
    state: str = "ready"
    attempts: int = 0
    retry_after: str | None = None
    alike: bool = False


CALLER = {
    "model_unknown": Row("model_unknown", 404, "model_not_found", 1),
    "bad_parameter": Row("unsupported_param", 400, "unsupported_parameter", 1),
    "context_too_large": Row("context_too_long", 400, "context_length_exceeded", 1),
    "tools_too_large": Row("tools_too_large", 400, "tools_too_large", 1),
    "image_unsupported": Row("image_unsupported", 400, "image_unsupported", 1),
}
OURS = {
    "client_too_old": Row("client_outdated", 502, "upstream_protocol_error", 1),
    "update_required": Row("client_outdated", 502, "upstream_protocol_error", 1),
    "wrong_content_type": Row("protocol", 502, "upstream_protocol_error", 2),
    "protocol_464": Row("protocol", 502, "upstream_protocol_error", 2),
}
ACCOUNT = {
    "token_expired": Row(
        "auth_revoked", 502, "upstream_auth_failed", 3, "*", 10 * MINUTE, state="needs_sign_in", attempts=6
    ),
    "key_bad": Row("auth_revoked", 502, "upstream_auth_failed", 3, "*", 10 * MINUTE, state="needs_sign_in"),
    "usage_exhausted": Row("quota", 429, "rate_limit_exceeded", 3, "*", 15 * MINUTE, retry_after="30", alike=True),
    "unpaid_invoice": Row("payment", 503, "no_capacity", 3, "*", 10 * MINUTE, state="disabled", retry_after="60"),
    "too_many_computers": Row("device_limit", 503, "no_capacity", 3, "*", 24 * HOUR, retry_after="86400"),
    "suspicious": Row("blocked", 503, "no_capacity", 1, "*", 10 * MINUTE, state="blocked", retry_after="60"),
    "account_closed": Row(
        "account_closed", 503, "no_capacity", 3, "*", 10 * MINUTE, state="disabled", retry_after="60"
    ),
    "model_not_in_plan": Row("model_gated", 503, "no_capacity", 3, "model", 12 * HOUR, retry_after="43200"),
    "model_limit": Row("model_limit", 429, "rate_limit_exceeded", 3, "model", 6 * HOUR, retry_after="21600"),
    "rate_limited": Row("rate_limit", 429, "rate_limit_exceeded", 3, "model", 5, retry_after="30", alike=True),
    "bare_resource_exhausted": Row(
        "exhausted", 429, "rate_limit_exceeded", 3, "model", 60, retry_after="30", alike=True
    ),
    "rate_limited_hint": Row("rate_limit", 429, "rate_limit_exceeded", 3, "model", 7, retry_after="7 8"),
}
PASSING = {
    "aborted": Row("transient", 502, "upstream_error", 3, attempts=6),
    "deadline": Row("timeout", 504, "timeout", 3),
    "unavailable": Row("transient", 502, "upstream_error", 3, attempts=6),
    "internal": Row("transient", 502, "upstream_error", 3, attempts=6),
    "html_403": Row("egress", 502, "upstream_unreachable", 3),
    "goaway": Row("transient", 502, "upstream_error", 3, attempts=6),
}  # fmt: skip
ROWS = CALLER | OURS | ACCOUNT | PASSING

# What a proxy in the middle leaves of a cause once the stream has begun: foreign bytes, or a dropped connection.
SPOILT = {"html_403": "protocol", "wrong_content_type": "protocol", "protocol_464": "protocol", "goaway": "cut"}


@dataclass
class Trial:
    """What one request met. ``rests``: (account name, what) → seconds."""

    status: int
    body: Any
    headers: dict[str, str]
    request_id: str
    asked: list[str]
    rests: dict[tuple[str, str], float]
    states: dict[str, str]
    record: dict[str, Any] = field(default_factory=dict)


class Bench:
    """Runs trials on a house whose accounts have an order."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.trials = 0
        rows = house.database.execute(
            "SELECT name, id FROM accounts_account WHERE transport = 'agent_rpc' ORDER BY id"
        ).fetchall()
        self.names = {number: name.rpartition("-")[2].rpartition(" ")[2] for name, number in rows}

    def prepare(self) -> None:
        self.house.simulator.reset()
        self.house.forget_rests()
        if set(self.states().values()) != {"ready"}:
            self.house.reset()

    def states(self) -> dict[str, str]:
        rows = self.house.database.execute(
            "SELECT id, state FROM accounts_account WHERE transport = 'agent_rpc'"
        ).fetchall()
        return {self.names[number]: state for number, state in rows}

    def rests(self) -> dict[tuple[str, str], float]:
        found = {}
        for number, name in self.names.items():
            cooled: dict[bytes, bytes] = self.house.redis.hgetall(f"poolgate:cool:{number}")  # type: ignore[assignment]
            for what, until in cooled.items():
                if what.startswith((b"hold|", b"warm|")):
                    continue  # nobody is found guilty yet, or any more
                found[name, "*" if what == b"*" else "model"] = float(until) / 1000 - time.time()
        return found

    def trial(self, path: str, row: Row, *, cause: str, after: int | None) -> Trial:
        self.prepare()
        self.trials += 1
        model = MODEL % (20 + self.trials)
        for account in self.house.simulator.keys:
            self.house.simulator.fault(account, cause, after=after)
        told: Any
        if after is None:
            answer = ask(self.house, path, model)
            status, told = answer.status_code, error_of(path, answer)
        else:
            with streaming(self.house, path, model) as stream:
                answer, status, told = stream.answer, stream.answer.status_code, list(stream)
        rests = self.rests()
        accounts = self.house.simulator.accounts()
        asked = [name for name in self.names.values() if accounts[name]["contacted"]]
        if row.state != "ready" and rests:
            resting = len({name for name, _ in rests})
            eventually(lambda: list(self.states().values()).count(row.state) >= resting, 5)
            time.sleep(0.1)
        return Trial(status, told, dict(answer.headers), answer.headers["x-request-id"], asked, rests, self.states())


@pytest.fixture(scope="module")
def bench(house_process: House) -> Iterator[Bench]:
    house_process.reset()
    house_process.database.execute("UPDATE accounts_account SET priority = 10 * id")
    house_process.publish()
    yield Bench(house_process)
    house_process.reset()
    house_process.database.execute("UPDATE accounts_account SET priority = 100")
    house_process.publish()


def with_records(house: House, trials: dict[str, Trial]) -> dict[str, Trial]:
    for trial in trials.values():
        trial.record = house.record(trial.request_id)
    return trials


@pytest.fixture(scope="module")
def before(bench: Bench) -> dict[str, Trial]:
    """Every cause before any output, in both protocols in turn."""
    paths = [CHAT, MESSAGES]
    trials = {
        cause: bench.trial(paths[number % 2], row, cause=cause, after=None)
        for number, (cause, row) in enumerate(ROWS.items())
    }
    return with_records(bench.house, trials)


@pytest.fixture(scope="module")
def after(bench: Bench) -> dict[str, Trial]:
    """Every cause after three deltas."""
    paths = [MESSAGES, CHAT]
    trials = {
        cause: bench.trial(paths[number % 2], row, cause=cause, after=3)
        for number, (cause, row) in enumerate(ROWS.items())
    }
    return with_records(bench.house, trials)


def test_fifty_requests_at_once_on_expired_tokens_make_one_exchange(bench: Bench) -> None:
    """First of all, because a token that is refused soon after it was renewed is not renewed once more."""
    bench.prepare()
    bench.house.database.execute("UPDATE accounts_account SET slots = 60 WHERE id = 1")
    bench.house.publish()
    simulator = bench.house.simulator
    try:
        simulator.settings(token_life=1.5)
        for key in bench.house.redis.keys("poolgate:bearer:*"):  # no process has another one to lend
            bench.house.redis.delete(key)
        simulator.fault("alpha", "token_expired", times=1)
        assert ask(bench.house, CHAT, "sim-lorem-7").status_code == 200
        exchanges = simulator.accounts()["alpha"]["exchanges"]
        assert exchanges
        simulator.settings(token_life=3600)
        time.sleep(1.7)
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda _: ask(bench.house, CHAT, "sim-lorem-7"), range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert simulator.accounts()["alpha"]["exchanges"] == exchanges + 1
        assert set(bench.states().values()) == {"ready"}
    finally:
        bench.house.database.execute("UPDATE accounts_account SET slots = 3 WHERE id = 1")
        bench.house.publish()


@pytest.mark.parametrize("cause", ROWS)
def test_before_output(before: dict[str, Trial], cause: str) -> None:
    row, trial = ROWS[cause], before[cause]
    names = ["alpha", "beta", "gamma"][: row.asked]
    record = trial.record
    messages = record["protocol"] == "messages"
    assert trial.status == (529 if messages and row.status == 503 else row.status)
    assert trial.asked == names
    assert (record["code"], record["reason"], record["committed"]) == (row.code, row.reason, False)
    assert record["outcome"] == ("client_error" if cause in CALLER else "upstream_error")
    assert len(record["attempts"]) == (row.attempts or row.asked)
    assert trial.headers.get("retry-after", "") in (row.retry_after or "").split(" ")
    assert set(trial.rests) == {(name, row.rest) for name in names if row.rest and not row.alike}
    for seconds in trial.rests.values():
        assert 0.9 * row.seconds - 2 <= seconds <= 1.06 * row.seconds
    assert trial.states == {name: row.state if name in names else "ready" for name in ("alpha", "beta", "gamma")}
    shown = json.dumps(trial.body).lower()
    assert not [word for word in ("alpha", "beta", "gamma", "127.0.0.1", "cursor", "sim-") if word in shown]


@pytest.mark.parametrize("cause", ROWS)
def test_after_output(after: dict[str, Trial], cause: str) -> None:
    row, trial = ROWS[cause], after[cause]
    record = trial.record
    path = CHAT if record["protocol"] == "chat" else MESSAGES
    reason = SPOILT.get(cause, "auth_expired" if cause == "token_expired" else row.reason)
    assert (trial.status, trial.asked) == (200, ["alpha"])
    assert (record["outcome"], record["committed"], record["reason"]) == ("interrupted", True, reason)
    assert len(record["attempts"]) == 1
    event, last = trial.body[-1]
    assert event == ("message" if path == CHAT else "error")
    unwrap(path, last)
    assert "lorem" in json.dumps(trial.body)
    assert not [data for _, data in trial.body if data == "[DONE]" or "message_stop" in str(data)]
    rests = {("alpha", row.rest)} if row.rest and reason == row.reason else set()
    assert set(trial.rests) == rests
    assert trial.states == {"alpha": row.state if rests else "ready", "beta": "ready", "gamma": "ready"}


def test_two_accounts_fail_and_the_third_serves(bench: Bench) -> None:
    bench.prepare()
    bench.house.simulator.fault("alpha", "model_limit")
    bench.house.simulator.fault("beta", "deadline")
    answer = ask(bench.house, CHAT, "sim-lorem-5")
    assert len(text_of(CHAT, answer).split()) == 5
    record = bench.house.record(answer.headers["x-request-id"])
    assert [attempt.get("reason", "") for attempt in record["attempts"]] == ["model_limit", "timeout", ""]
    assert (record["outcome"], record["reason"]) == ("ok", "")
    assert set(bench.rests()) == {("alpha", "model")}


def trace_of(house: House, request_id: str) -> Trace:
    find = "SELECT trace FROM ops_requesttrace WHERE request_id = %s"
    [value] = eventually(lambda: house.database.execute(find, [request_id]).fetchone(), 15)
    return read(value)


def test_the_trace_of_a_turn_tells_its_whole_path(bench: Bench) -> None:
    bench.prepare()
    bench.house.simulator.fault("alpha", "rate_limited")
    answer = ask(bench.house, CHAT, "sim-lorem-11")
    assert answer.status_code == 200
    trace = trace_of(bench.house, answer.headers["x-request-id"])
    names = [type(step).__name__ for step in trace.steps]
    assert sorted(names) == sorted(["Look", "Tried", "Moved", "Look", "Committed", "Judged", "Tried", "Ended"])
    tries = [step for step in trace.steps if isinstance(step, Tried)]
    assert [(bench.names[step.account], step.reason, step.mark) for step in tries] == [
        ("alpha", Reason.RATE_LIMIT, Mark.HELD), ("beta", None, Mark.NONE),
    ]  # fmt: skip
    assert [step.verdict for step in trace.steps if isinstance(step, Judged)] == [Verdict.CONFIRMED]
    assert set(bench.rests()) == {("alpha", "model")}


@pytest.mark.parametrize("cause", ["rate_limited", "bare_resource_exhausted", "usage_exhausted"])
def test_a_request_that_every_account_refuses_leaves_all_of_them_ready_and_its_retry_asks_nobody(
    bench: Bench, cause: str
) -> None:
    bench.prepare()
    model = f"sim-lorem-12{len(cause)}"  # of this trial alone
    for account in bench.house.simulator.keys:
        bench.house.simulator.fault(account, cause, models=[model])
    first = ask(bench.house, CHAT, model)
    asked = len(bench.house.simulator.runs())
    again = ask(bench.house, CHAT, model)
    assert (first.status_code, again.status_code, again.json()) == (429, 429, first.json())
    assert (asked, len(bench.house.simulator.runs())) == (3, 3)
    assert 25 <= int(again.headers["retry-after"]) <= 30
    assert (bench.rests(), set(bench.states().values())) == ({}, {"ready"})
    record = bench.house.record(again.headers["x-request-id"])
    assert (record["outcome"], record["attempts"]) == ("rejected", [])
    *_, ended = trace_of(bench.house, again.headers["x-request-id"]).steps
    assert isinstance(ended, Ended)
    assert ended.remembered
    assert ask(bench.house, CHAT, "sim-lorem-13").status_code == 200


def test_a_model_limit_leaves_the_account_its_other_models(bench: Bench) -> None:
    bench.prepare()
    bench.house.simulator.fault("alpha", "model_limit", models=["sim-lorem-6"])
    assert ask(bench.house, CHAT, "sim-lorem-6").status_code == 200
    bench.house.simulator.reset()
    assert ask(bench.house, CHAT, "sim-echo").status_code == 200
    assert ask(bench.house, CHAT, "sim-lorem-6").status_code == 200
    assert [(run["account"], run["model"]) for run in bench.house.simulator.runs()[::-1]] == [
        ("alpha", "sim-echo"), ("beta", "sim-lorem-6"),
    ]  # fmt: skip


def test_a_passing_fault_is_tried_once_more_on_the_same_account(bench: Bench) -> None:
    for cause in ("unavailable", "goaway", "internal"):
        bench.prepare()
        bench.house.simulator.fault("alpha", cause, times=1)
        answer = ask(bench.house, MESSAGES, "sim-lorem-4")
        assert len(text_of(MESSAGES, answer).split()) == 4
        accounts = bench.house.simulator.accounts()
        assert {name for name, account in accounts.items() if account["contacted"]} == {"alpha"}, cause


def test_an_account_whose_credential_cannot_be_opened_is_passed_by_and_not_marked(house: House) -> None:
    """As after a key was taken out of POOLGATE_ENCRYPTION_KEYS too early."""
    where = "account_id IN (SELECT id FROM accounts_account WHERE name IN ('sim-alpha', 'sim-beta'))"
    rows = house.database.execute(f"SELECT id, sealed FROM accounts_credential WHERE {where}").fetchall()
    # Under another number, for which no process holds a token.
    change = "UPDATE accounts_credential SET id = id + %s, sealed = %s WHERE id = %s"
    try:
        for number, _ in rows:
            house.database.execute(change, (1000, b"00000000:x", number))
        house.publish()
        answers = [ask(house, CHAT, "sim-echo") for _ in range(6)]
    finally:
        for number, sealed in rows:
            house.database.execute(change, (-1000, sealed, number + 1000))
        house.publish()
    assert [answer.status_code for answer in answers] == [200] * 6
    records = [house.record(answer.headers["x-request-id"]) for answer in answers]
    assert "internal" in {attempt.get("reason") for record in records for attempt in record["attempts"]}
    states = house.database.execute("SELECT DISTINCT state FROM accounts_account WHERE kind = 'cursor'").fetchall()
    assert states == [("ready",)]
