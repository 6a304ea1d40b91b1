"""From the model that a caller named to the accounts that may serve it. Pure: a snapshot in, a route out.

Every base model also exists as ``-thinking``; a doubled suffix is refused. A catalogue entry may be a pattern, which
then serves every name it matches under that very name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from accounts.compile import AccountState, AccountView, ModelView
from gateway.snapshot import Snapshot
from ir.errors import ApiError, Culprit, Kind
from ir.request import Request
from tenants.compile import KeyView

THINKING = "-thinking"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
"""What a pattern may serve: the name goes to the upstream, into the record and into metrics."""
POOLS_KEPT = 1024
"""Pools remembered for one snapshot: callers can make up names that a pattern serves."""


class Route(Struct, frozen=True):
    """``upstream_id`` and ``parameters`` are what the upstream is asked for; ``candidates`` is never empty."""

    model: ModelView
    upstream_id: str
    parameters: Mapping[str, str]
    candidates: tuple[AccountView, ...]


def resolve(request: Request, key: KeyView, snapshot: Snapshot) -> Route:
    """Raises 404 ``model_not_found``, 403 ``model_not_allowed`` or 503 ``no_account``."""
    model, thinking = check_name(request.model, key, snapshot)
    upstream_id = model.upstream_id or request.model.removesuffix(THINKING if thinking else "")
    candidates = _candidates(upstream_id, key.groups, snapshot)
    if not candidates:
        raise _no_account(upstream_id, key, snapshot)
    return Route(model, upstream_id, _parameters(request, model, thinking), candidates)


def check_name(name: str, key: KeyView, snapshot: Snapshot) -> tuple[ModelView, bool]:
    """``find_model`` for a caller: raises 403 ``model_not_allowed`` as well."""
    found = find_model(name, snapshot)
    if not allowed(name, key):
        raise ApiError(
            Kind.PERMISSION, "model_not_allowed", "This API key may not use the requested model.", param="model"
        )
    return found


def find_model(name: str, snapshot: Snapshot) -> tuple[ModelView, bool]:
    """The catalogue entry for a public name, and whether the ``-thinking`` twin was meant."""
    found = _lookup(name, snapshot)
    if found is not None:
        return found, False
    base = name.removesuffix(THINKING)
    twin = _lookup(base, snapshot) if base != name and not base.endswith(THINKING) else None
    if twin is None:
        raise ApiError(Kind.NOT_FOUND, "model_not_found", "The requested model does not exist here.", param="model")
    return twin, True


def listed(key: KeyView, snapshot: Snapshot) -> Iterator[ModelView]:
    """The models that a key may name, as callers name them, twins included; patterns cannot be listed."""
    for model in snapshot.models.values():
        if not _exposed(model.name, snapshot):
            continue
        for name in (model.name,) if model.name.endswith(THINKING) else (model.name, model.name + THINKING):
            if allowed(name, key):
                yield structs.replace(model, name=name)


def allowed(name: str, key: KeyView) -> bool:
    return not key.models or any(fnmatchcase(name, pattern) for pattern in key.models)


def _lookup(name: str, snapshot: Snapshot) -> ModelView | None:
    exact = snapshot.models.get(name)
    if exact is not None:
        return exact if _exposed(name, snapshot) else None
    if name.endswith(THINKING) or not NAME.fullmatch(name):  # a pattern must not swallow the twin's suffix
        return None
    return next((model for model in snapshot.patterns if fnmatchcase(name, model.name)), None)


def _exposed(name: str, snapshot: Snapshot) -> bool:
    return not snapshot.exposed or name in snapshot.exposed


def _candidates(upstream_id: str, groups: frozenset[int], snapshot: Snapshot) -> tuple[AccountView, ...]:
    """The accounts of these groups that serve the model: looked for once a snapshot, not once a request."""
    found = snapshot.pools.get((groups, upstream_id))
    if found is None:
        found = tuple(
            account
            for account in snapshot.accounts
            if account.groups & groups and account.state is AccountState.READY and account.serves(upstream_id)
        )
        if len(snapshot.pools) >= POOLS_KEPT:
            snapshot.pools.clear()
        snapshot.pools[groups, upstream_id] = found
    return found


def _parameters(request: Request, model: ModelView, thinking: bool) -> Mapping[str, str]:
    """The base model's parameters, with thinking switched on by the twin's name or by the request itself."""
    on = thinking or request.thinking.enabled
    return {**model.parameters, **model.thinking_parameters} if on else model.parameters


def _no_account(upstream_id: str, key: KeyView, snapshot: Snapshot) -> ApiError:
    """The message tells the classes of the reason, never an account's name."""
    allowed = [account for account in snapshot.accounts if account.groups & key.groups]
    if not allowed:
        reason = "no account group of this team holds an account"
    elif not any(account.serves(upstream_id) for account in allowed):
        reason = "no account serves this model"
    else:
        reason = "every account that serves this model is resting or switched off"
    return ApiError(
        Kind.NO_CAPACITY, "no_account", f"No account is available: {reason}.", retry_after=30, culprit=Culprit.GATEWAY
    )
