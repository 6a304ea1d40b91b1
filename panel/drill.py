"""The drill: makes the fake upstream fail in a chosen way and shows the path that a request then takes.

It brings accounts, a group, a team, a key and a model of its own, all called ``drill-…``, sends real requests through
the running gateway, reads what the request log kept of them, and takes everything away again; the records stay. The
faults are ordered for one model that nobody else asks for, so other traffic of the same simulator is left alone. Only
the simulator can be told to fail, so a drill never spends anything of a real account.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import orjson
from django.conf import settings
from msgspec import Struct

from accounts import catalogue, effects, groups
from accounts import verbs as accounts
from accounts.models import Account, CatalogueModel, Group
from core import redis
from core.audit import Actor
from ops.models import RequestRecord
from tenants import verbs as tenants
from tenants.models import Team

PREFIX = "drill-"
STAFF = ("alpha", "beta", "gamma")
"""The simulator's accounts that play, in the order in which they are asked."""

LOCK = redis.key("drill")
LONGEST = 300
PATIENCE = 15.0
"""Seconds until a new configuration must be in force, and until a record must be written down."""


class Unavailable(Exception):
    """There can be no drill now; the message says why and what to do."""


class Order(Struct, frozen=True):
    """What to rehearse: ``cause`` is one of the simulator's; it strikes after ``after`` deltas (0: before any), and
    with ``everywhere`` every account, else the first alone."""

    cause: str
    after: int = 0
    everywhere: bool = False


class Leg(Struct, frozen=True):
    """One attempt. ``reason`` "" means that it served; ``rest`` in seconds."""

    account: str
    reason: str
    stage: str
    culprit: str
    took_ms: int
    rest: float


class After(Struct, frozen=True):
    """What became of an account: its state, and why it rests (model "" is the whole account)."""

    account: str
    state: str
    rests: tuple[str, ...]


class Rehearsal(Struct, frozen=True):
    """The path of one request. ``status`` and ``code`` are the caller's ("" where it was served); ``interrupted``: the
    answer broke off in band."""

    order: Order
    request_id: str
    status: int
    code: str
    interrupted: bool
    duration_ms: int
    legs: tuple[Leg, ...]
    accounts: tuple[After, ...]


def addresses() -> tuple[str, str]:
    """Gateway and simulator of this installation, as ``manage.py up`` noted them. Raises ``Unavailable``."""
    try:
        noted = orjson.loads((Path(settings.DATA_DIR) / "run" / "up.json").read_bytes())
        gateway, simulator = noted["base_url"], noted["simulator_url"]
    except (OSError, ValueError, KeyError):
        raise Unavailable("No running installation was found; start one with --demo, or name both addresses.") from None
    if not simulator:
        raise Unavailable("The drill plays with the simulator, and this installation runs without one (--demo).")
    return gateway, simulator


def list_causes(simulator: str) -> list[str]:
    """What the simulator can do. Raises ``Unavailable``."""
    with httpx2.Client(timeout=10, trust_env=False) as web:
        causes: list[str] = _ask(web, "GET", f"{simulator}/_sim/causes")["causes"]
        return causes


class Drill:
    """A context: only one at a time. Raises ``Unavailable`` when another drill runs or nobody answers."""

    def __init__(self, gateway: str, simulator: str, actor: Actor) -> None:
        self._gateway = gateway
        self._simulator = simulator
        self._actor = actor
        self._web = httpx2.Client(timeout=60, trust_env=False)
        self._token = self._key = self._script = ""

    def __enter__(self) -> Self:
        if not redis.connection().set(LOCK, "1", nx=True, ex=LONGEST):
            raise Unavailable("Another drill is running; one takes a few seconds for each cause. Try again then.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._web.close()
        redis.connection().delete(LOCK)

    def run(self, order: Order) -> Rehearsal:
        """Rehearses one fault. Raises ``ValueError`` for one that the simulator does not know."""
        redis.connection().expire(LOCK, LONGEST)
        _dismiss(self._actor)  # what a drill that was killed left behind
        struck = STAFF if order.everywhere else STAFF[:1]
        try:
            self._hire()
            for name in struck:
                self._order(name, order.cause, order.after)
            return self._observe(order)
        finally:
            for name in struck:
                self._order(name, None, 0)
            _dismiss(self._actor)

    def _hire(self) -> None:
        """New for each rehearsal: what processes remember of accounts and of the upstream's trouble is of others."""
        self._token, self._script = PREFIX + secrets.token_hex(4), f"sim-lorem-{50 + secrets.randbelow(200)}"
        team = tenants.create_team(self._token, actor=self._actor)
        group = groups.create_group(self._token, teams=[team], actor=self._actor)
        for place, name in enumerate(STAFF):
            accounts.create_cursor_account(
                f"{self._token}-{name}", f"crsr_sim_{name}", self._simulator, [group], priority=place, actor=self._actor
            )
        catalogue.define_model(self._token, upstream_id=self._script, owner="drill", actor=self._actor)
        self._key = tenants.issue_key(team, self._token, "demo", actor=self._actor)[1]
        self._until(self._in_force, "The new configuration did not come into force.")

    def _in_force(self) -> bool:
        """Whether the gateway knows all of it: it takes a configuration whole, and the key was the last of it."""
        try:
            answer = self._web.get(f"{self._gateway}/v1/models/{self._token}", headers=self._headers())
        except httpx2.HTTPError:
            raise Unavailable(f"No gateway answers at {self._gateway}.") from None
        return answer.status_code == 200

    def _observe(self, order: Order) -> Rehearsal:
        body = {
            "model": self._token,
            "stream": True,
            "messages": [{"role": "user", "content": f"drill {self._token}"}],
        }
        began = time.monotonic()
        answer = self._web.post(f"{self._gateway}/v1/chat/completions", json=body, headers=self._headers())
        took = round((time.monotonic() - began) * 1000)
        request_id = answer.headers.get("x-request-id", "")
        record = self._until(
            lambda: RequestRecord.objects.filter(request_id=request_id).first(), "The request log shows no record."
        )
        return Rehearsal(
            order=order,
            request_id=request_id,
            status=answer.status_code,
            code=record.code,
            interrupted=record.in_stream_error,
            duration_ms=took,
            legs=tuple(self._leg(attempt) for attempt in record.attempts),
            accounts=tuple(self._after()),
        )

    def _leg(self, attempt: Mapping[str, Any]) -> Leg:
        return Leg(
            account=self._names().get(attempt["account_id"], "?"),
            reason=attempt.get("reason", ""),
            stage=attempt.get("stage", ""),
            culprit=attempt.get("culprit", ""),
            took_ms=attempt.get("took_ms", 0),
            rest=attempt.get("cooldown_s", 0.0),
        )

    def _after(self) -> Iterable[After]:
        effects.apply_effects(redis.connection(), claim_after=0)  # else the rows would follow within a second
        for row in self._rows().prefetch_related("cooldowns"):
            rests = tuple(f"{rest.model or 'account'}: {rest.reason}" for rest in row.cooldowns.all())
            yield After(self._short(row.name), row.state, rests)

    def _rows(self) -> Any:
        return Account.objects.filter(name__startswith=self._token)

    def _names(self) -> dict[int, str]:
        return {pk: self._short(name) for pk, name in self._rows().values_list("pk", "name")}

    def _short(self, name: str) -> str:
        return name.removeprefix(f"{self._token}-")

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key}"}

    def _order(self, account: str, cause: str | None, after: int) -> None:
        fault = {"fault": cause, "times": None, "models": [self._script], "after": after or None}
        _ask(self._web, "POST", f"{self._simulator}/_sim/accounts/{account}", fault)

    def _until(self, look: Any, complaint: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            if time.monotonic() > deadline:
                raise Unavailable(complaint)
            time.sleep(0.1)
        return found


def _ask(web: httpx2.Client, method: str, url: str, body: object = None) -> Any:
    """Of the simulator's control API. Raises ``ValueError`` with its sentence for a bad order."""
    try:
        answer = web.request(method, url, json=body)
    except httpx2.HTTPError:
        raise Unavailable(f"No simulator answers at {url}.") from None
    if answer.status_code == 400:
        raise ValueError(answer.json()["error"])
    if answer.status_code != 200:
        raise Unavailable(f"The simulator refused: {answer.status_code}.")
    return answer.json()


def _dismiss(actor: Actor) -> None:
    for account in Account.objects.filter(name__startswith=PREFIX):
        accounts.delete_account(account, actor=actor)
    for group in Group.objects.filter(name__startswith=PREFIX):
        groups.delete_group(group, actor=actor)
    for model in CatalogueModel.objects.filter(name__startswith=PREFIX, owner="drill"):
        catalogue.delete_model(model, actor=actor)
    for team in Team.objects.filter(name__startswith=PREFIX):
        tenants.delete_team(team, actor=actor)
