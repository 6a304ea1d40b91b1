"""What would happen to a request now, and what would be the first thing to stop it: asked without spending anything.

The steps are those of ``gateway.pipeline``, in its order and by its own functions where they are pure: the key, the
protocol's gate, the name of the model, the accounts that may serve it, the limits of the caller, and then how each of
those accounts stands. What depends on the request itself (budgets, images) is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from accounts.compile import AccountView
from accounts.live import Live, Look
from gateway import routing
from gateway.contracts import ErrorReply
from gateway.protocols.chat import server as chat
from gateway.protocols.gemini import errors as gemini
from gateway.protocols.messages import server as messages
from gateway.protocols.responses import server as responses
from gateway.routing import Route
from gateway.snapshot import Snapshot
from ir.errors import ApiError, Culprit, Kind
from ir.request import Request
from tenants.compile import KeyView

_ERRORS: Mapping[str, Callable[[ApiError, str], ErrorReply]] = {
    "chat": chat.encode_error,
    "responses": responses.encode_error,
    "messages": messages.encode_error,
    "gemini": gemini.encode_error,
}
PROTOCOLS = tuple(_ERRORS)


class Blocked(Struct, frozen=True):
    """The first thing in the way. ``step``: key, protocol, model, accounts, limits or pool; ``status`` and ``code`` are
    what the caller gets; ``retry_after`` in seconds, where waiting helps."""

    step: str
    status: int
    code: str
    message: str
    retry_after: float | None = None


class Candidate(Struct, frozen=True):
    """An account that may serve. ``standing`` says whether it would be taken now; ``until`` in Unix seconds."""

    account_id: int
    name: str
    priority: int
    standing: str
    in_use: int
    slots: int
    until: float | None = None


class Finding(Struct, frozen=True):
    """``serves``: a request would go to an account now. ``candidates``: in the order of priority."""

    protocol: str
    model: str
    serves: bool
    blocked: Blocked | None = None
    served_model: str = ""
    upstream_model: str = ""
    candidates: tuple[Candidate, ...] = ()


class Limit(Struct, frozen=True):
    """Requests at once of a caller: ``whose`` is key, member or team; ``most`` 0: no limit."""

    whose: str
    running: int
    most: int


LookAt = Callable[[Sequence[AccountView]], Live]


def check(
    key: KeyView, model: str, protocol: str, snapshot: Snapshot, limits: Sequence[Limit], look_at: LookAt, now: float
) -> Finding:
    """What would happen to the key's request for ``model`` by ``protocol`` at ``now`` (Unix seconds)."""
    route: Route | None = None
    candidates: tuple[Candidate, ...] = ()
    step = "key"
    try:
        _check_key(key, now)
        step = "protocol"
        _check_gate(protocol, snapshot)
        step = "model"
        routing.check_name(model, key, snapshot)
        step = "accounts"
        route = routing.resolve(Request(model=model, messages=()), key, snapshot)
        live = look_at(route.candidates)
        looks = [(account, live.look(account, route.upstream_id)) for account in route.candidates]
        candidates = tuple(_candidate(account, look) for account, look in sorted(looks, key=_order))
        step = "limits"
        _check_limits(limits)
        step = "pool"
        _check_pool([look for _, look in looks], live.now)
    except ApiError as error:
        return _finding(protocol, model, route, candidates, _blocked(step, error, protocol))
    return _finding(protocol, model, route, candidates, None)


def _finding(
    protocol: str, model: str, route: Route | None, candidates: tuple[Candidate, ...], blocked: Blocked | None
) -> Finding:
    return Finding(
        protocol=protocol,
        model=model,
        serves=blocked is None,
        blocked=blocked,
        served_model=route.served if route else "",
        upstream_model=route.upstream_id if route else "",
        candidates=candidates,
    )


def _order(pair: tuple[AccountView, Look]) -> tuple[int, str]:
    return pair[0].priority, pair[0].name


def _candidate(account: AccountView, look: Look) -> Candidate:
    return Candidate(
        account.id, account.name, account.priority, look.standing.value, look.in_use, look.slots, look.until
    )


def _blocked(step: str, error: ApiError, protocol: str) -> Blocked:
    status = _ERRORS[protocol](error, "").status
    return Blocked(step, status, error.code, error.message, error.retry_after)


def _check_key(key: KeyView, now: float) -> None:
    if key.expires_at is not None and key.expires_at <= now:
        raise ApiError(Kind.AUTHENTICATION, "invalid_api_key", "The API key has expired.")


def _check_gate(protocol: str, snapshot: Snapshot) -> None:
    if protocol == "gemini" and not snapshot.settings.gemini_native_enabled:
        raise ApiError(Kind.NOT_FOUND, "gemini_native_disabled", "The setting gemini_native_enabled is off.")


def _check_limits(limits: Sequence[Limit]) -> None:
    for limit in limits:
        if limit.most and limit.running >= limit.most:
            raise ApiError(
                Kind.RATE_LIMIT,
                "concurrency_exceeded",
                f"The {limit.whose} has as many requests running as it may ({limit.most}).",
                retry_after=1,
            )


def _check_pool(looks: Sequence[Look], now: float) -> None:
    if any(look.would_serve for look in looks):
        return
    ends = [look.until for look in looks if look.until is not None]
    raise ApiError(
        Kind.NO_CAPACITY,
        "no_capacity",
        "No account can serve now: " + ", ".join(_count(looks)) + ".",
        retry_after=max(min(ends) - now, 0) if ends else None,
        culprit=Culprit.GATEWAY,
    )


def _count(looks: Sequence[Look]) -> list[str]:
    found: dict[str, int] = {}
    for look in looks:
        found[look.standing.value] = found.get(look.standing.value, 0) + 1
    return [f"{number} {standing.replace('_', ' ')}" for standing, number in sorted(found.items())]
