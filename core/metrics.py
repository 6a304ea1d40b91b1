"""The metrics that every process counts; ``/metrics`` adds the processes up.

Labels are bounded by their types: protocol names from a closed list, enums, and model names that the catalogue
vouched for (``allow_models``), of which the first 100 ever seen keep a name and the rest share ``other``. Counting is
synchronous, in memory, and cheap enough for the edge of a request; nothing here is called once per chunk.

With several processes, ``PROMETHEUS_MULTIPROC_DIR`` must be in the environment before this module is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram

from ir.errors import Reason, Stage
from ir.usage import Usage

OTHER = "other"
PROTOCOLS = frozenset({"chat", "responses", "messages", "gemini", "agent"})
MAX_MODELS = 100

DURATION = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 900)
FIRST_TOKEN = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120)


class Rejection(StrEnum):
    """Why a request was turned away before any upstream was called."""

    BAD_KEY = "bad_key"
    EXPIRED = "expired"
    MODEL = "model"
    BUDGET = "budget"
    BODY = "body"
    CONCURRENCY = "concurrency"
    PACE = "pace"
    QUOTA = "quota"
    NO_ACCOUNT = "no_account"
    STATE = "state"


class Cause(StrEnum):
    """What ended a stream after its first content."""

    UPSTREAM_CUT = "upstream_cut"
    IDLE = "idle"
    MAX = "max"
    GATEWAY = "gateway"


class Circuit(StrEnum):
    """What became of the circuit of an upstream. ``CANARY``: one request may ask it, though the circuit is open."""

    OPENED = "opened"
    CANARY = "canary"
    CLOSED = "closed"


class Parking(StrEnum):
    """What became of a stream that waits for tool results, or of the results. ``REPLAYED``: results came to which no
    kept stream belonged, or whose stream could not go on, and a new run got the whole history."""

    PARKED = "parked"
    CONTINUED = "continued"
    EXPIRED = "expired"
    DROPPED = "dropped"
    REPLAYED = "replayed"


_requests = Counter("poolgate_requests", "Requests, counted at their end.", ["protocol", "model", "stream", "outcome"])
_duration = Histogram(
    "poolgate_request_duration_seconds", "From the first byte in to the last byte out.",
    ["protocol", "stream", "outcome"], buckets=DURATION,
)  # fmt: skip
_first_token = Histogram(
    "poolgate_time_to_first_token_seconds", "Until the first semantic byte to the caller.",
    ["protocol", "model"], buckets=FIRST_TOKEN,
)  # fmt: skip
_attempts = Counter("poolgate_attempts", "Tries on an account, by how they ended.", ["reason", "stage"])
_protocol_errors = Counter(
    "poolgate_protocol_errors", "Answers that we did not understand, or that refused us as outdated: a bug of ours, or "
    "an upstream that changed.", ["reason"],
)  # fmt: skip
_switches = Counter("poolgate_switches", "Changes to another account, by what made it necessary.", ["reason"])
_rejected = Counter("poolgate_rejected", "Requests turned away before any upstream call.", ["reason"])
_inflight = Gauge(
    "poolgate_inflight_requests", "Requests running now.", ["protocol", "stream"], multiprocess_mode="livesum"
)
_tokens = Counter("poolgate_tokens", "Tokens of finished requests.", ["model", "type", "source"])
_interrupted = Counter("poolgate_interrupted_streams", "Streams that broke after content.", ["protocol", "cause"])
_parking = Counter("poolgate_parked_streams", "Streams kept for tool results, by what became of them.", ["event"])
_circuits = Counter(
    "poolgate_circuits", "Circuits of upstreams, by what became of them; counted by the process that did it.",
    ["transport", "event"],
)  # fmt: skip
_egress_rests = Counter("poolgate_egress_rests", "Ways out that were put to rest because nothing came through.")
_auth_failures = Counter("poolgate_auth_failures", "Requests without a valid key.")
_generation = Gauge(
    "poolgate_config_generation", "Version of the configuration in force; the oldest of all processes.",
    multiprocess_mode="livemin",
)  # fmt: skip


_M = TypeVar("_M", Counter, Gauge, Histogram)


@lru_cache(maxsize=8192)
def _series(metric: _M, *values: str) -> _M:
    """The series of these labels; finding one costs the library more than counting does, so they are kept."""
    return metric.labels(*values)


class ModelLabels:
    """Model names fit to be a label: only vouched ones, and never more than ``limit`` over the life of the process."""

    def __init__(self, limit: int = MAX_MODELS) -> None:
        self._limit = limit
        self._named: set[str] = set()

    def allow(self, names: Iterable[str]) -> None:
        """Vouches for names of the catalogue, in order of importance."""
        for name in names:
            if len(self._named) >= self._limit:
                return
            self._named.add(name)

    def __call__(self, name: str) -> str:
        return name if name in self._named else OTHER


_model_labels = ModelLabels()
allow_models = _model_labels.allow


def count_request(
    protocol: str, model: str, stream: bool, outcome: StrEnum, seconds: float, first_token: float | None
) -> None:
    """One finished request. ``seconds`` its whole length, ``first_token`` None when none came."""
    protocol, model, streamed = _protocol(protocol), _model_labels(model), _flag(stream)
    _series(_requests, protocol, model, streamed, outcome.value).inc()
    _series(_duration, protocol, streamed, outcome.value).observe(seconds)
    if first_token is not None:
        _series(_first_token, protocol, model).observe(first_token)


def count_tokens(model: str, usage: Usage) -> None:
    """The tokens of one finished request; unknown counts are left out. ``output`` includes ``reasoning``."""
    counts = {
        "input": usage.input_uncached,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
    }
    for kind, count in counts.items():
        if count:
            _series(_tokens, _model_labels(model), kind, usage.source.value).inc(count)


def count_attempt(reason: Reason | None, stage: Stage) -> None:
    """One try on one account; ``reason`` None: it served."""
    _series(_attempts, reason.value if reason else "ok", stage.value).inc()
    if reason in (Reason.PROTOCOL, Reason.CLIENT_OUTDATED):
        _series(_protocol_errors, reason.value).inc()


def count_switch(reason: Reason) -> None:
    _series(_switches, reason.value).inc()


def count_parking(event: Parking) -> None:
    _series(_parking, event.value).inc()


def count_circuit(transport: StrEnum, event: Circuit) -> None:
    """``transport``: how the upstream is spoken to. Its host and its models are no labels: nothing bounds them."""
    _series(_circuits, transport.value, event.value).inc()


def count_egress_rest() -> None:
    _egress_rests.inc()


def count_rejected(reason: Rejection) -> None:
    """A request turned away; a wrong or missing key counts as an authentication failure too."""
    _series(_rejected, reason.value).inc()
    if reason in (Rejection.BAD_KEY, Rejection.EXPIRED):
        _auth_failures.inc()


def count_interrupted(protocol: str, cause: Cause) -> None:
    _series(_interrupted, _protocol(protocol), cause.value).inc()


def change_inflight(protocol: str, stream: bool, by: int) -> None:
    """+1 when a request begins, -1 when it ends."""
    _series(_inflight, _protocol(protocol), _flag(stream)).inc(by)


def set_generation(version: int) -> None:
    _generation.set(version)


def _protocol(name: str) -> str:
    return name if name in PROTOCOLS else OTHER


def _flag(value: bool) -> str:
    return "true" if value else "false"
