"""From the model that a caller named to the accounts that may serve it. Pure: a snapshot in, a route out.

What a name stands for is the catalogue's business (``accounts.naming``). A key may have a fallback model, which serves
the names that stand for nothing. A key's list of models is about what is served: an alias is as good as its target, and
may also be on the list by its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from accounts.compile import AccountKind, AccountState, AccountView, ModelView
from accounts.kinds import Binding
from accounts.naming import THINKING, Named
from accounts.pool import rank
from gateway.contracts import Policy
from gateway.snapshot import Snapshot
from gateway.textbridge import plan
from gateway.upstreams.asking import SPEAKS, carried_fields, forbids_thinking
from ir.errors import ApiError, Culprit, Kind, invalid
from ir.request import Request
from tenants.compile import KeyView

POOLS_KEPT = 1024
"""Pools remembered for one snapshot: callers can make up names that a pattern serves."""


class Route(Struct, frozen=True):
    """``upstream_id`` and ``parameters`` are what the upstream is asked for; ``candidates`` is never empty,
    and ranked.

    ``served`` is the public name of what serves, which is not what the caller named where an alias or a fallback led;
    ``groups`` are those that the caller's team may use.
    """

    model: ModelView
    served: str
    upstream_id: str
    parameters: Mapping[str, str]
    candidates: tuple[AccountView, ...]
    groups: frozenset[int] = frozenset()


def resolve(request: Request, key: KeyView, snapshot: Snapshot) -> Route:
    """Raises 404 ``model_not_found``, 403 ``model_not_allowed`` or 503 ``no_account``."""
    named = check_name(request.model, key, snapshot)
    upstream_id = named.model.upstream_id or named.name
    candidates = _candidates(upstream_id, named.model.upstream, key.groups, snapshot)
    if not candidates:
        raise _no_account(upstream_id, named.model.upstream, key, snapshot)
    candidates = _that_take_images(len(request.images()), candidates)
    return Route(named.model, named.public, upstream_id, _parameters(request, named), candidates, key.groups)


def note_carried(request: Request, route: Route) -> Request:
    """Fields that nobody here knows are not ignored where every account that may serve speaks the caller's protocol."""
    carried = carried_fields(request)
    if not carried or any(SPEAKS.get(account.transport) != request.extras.protocol for account in route.candidates):
        return request
    return structs.replace(request, ignored=tuple(name for name in request.ignored if name not in carried))


_THINKING_FIELDS = {"chat": "reasoning_effort", "responses": "reasoning", "gemini": "thinkingConfig"}


def note_thinking(request: Request, route: Route, policy: Policy, protocol: str) -> Request:
    """Thinking that was asked for is listed as ignored where an account that may serve must do this turn without."""
    if not request.thinking.enabled:
        return request
    demanded = plan.demand(request, policy)
    if not any(forbids_thinking(account.transport, demanded) for account in route.candidates):
        return request
    return structs.replace(request, ignored=(*request.ignored, _THINKING_FIELDS.get(protocol, "thinking")))


def takes_formats(request: Request, key: KeyView, snapshot: Snapshot) -> bool:
    """Whether all accounts that may serve are a vendor's own API, which knows output formats. Raises as ``resolve``."""
    candidates = resolve(request, key, snapshot).candidates
    return all(account.kind is AccountKind.PROVIDER for account in candidates)


def check_name(name: str, key: KeyView, snapshot: Snapshot) -> Named:
    """What ``name`` stands for when this key says it. Raises 404 ``model_not_found`` or 403 ``model_not_allowed``."""
    named = _find(name, snapshot)
    if named is not None:
        if not _allowed(name, named, key):
            raise ApiError(
                Kind.PERMISSION, "model_not_allowed", "This API key may not use the requested model.", param="model"
            )
        return named
    fallback = _find(key.fallback_model, snapshot) if key.fallback_model else None
    if fallback is None:
        raise ApiError(Kind.NOT_FOUND, "model_not_found", "The requested model does not exist here.", param="model")
    return structs.replace(fallback, thinking=True) if name.endswith(THINKING) else fallback


def served_name(name: str, key: KeyView, snapshot: Snapshot) -> str:
    """The public name of what would serve ``name``; "" for a name that stands for nothing, which may hold anything."""
    try:
        return check_name(name, key, snapshot).public
    except ApiError:
        named = _find(name, snapshot)
        return named.public if named is not None else ""


def describe(name: str, key: KeyView, snapshot: Snapshot) -> ModelView:
    """The catalogue entry for a name, under that very name. Raises a 404 also where the key may not use it."""
    named = _find(name, snapshot)
    if named is None or not _allowed(name, named, key):
        raise ApiError(Kind.NOT_FOUND, "model_not_found", "The requested model does not exist here.")
    return structs.replace(named.model, name=name)


def listed(key: KeyView, snapshot: Snapshot) -> Iterator[ModelView]:
    """What a key may name, as callers name it: models, then aliases, twins included. Patterns cannot be listed."""
    for base in (*snapshot.names.models, *snapshot.names.aliases):
        for name in (base, base + THINKING):
            named = _find(name, snapshot)
            if named is not None and _allowed(name, named, key):
                yield structs.replace(named.model, name=name)


def _find(name: str, snapshot: Snapshot) -> Named | None:
    named = snapshot.names.find(name)
    if named is None or (snapshot.exposed and not named.model.is_pattern and named.name not in snapshot.exposed):
        return None
    return named


def _allowed(name: str, named: Named, key: KeyView) -> bool:
    if not key.models:
        return True
    if not named.alias:
        return _on_list(name, key)
    return _on_list(named.public, key) or _on_list(named.alias + (THINKING if name.endswith(THINKING) else ""), key)


def _on_list(name: str, key: KeyView) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in key.models)


def _candidates(
    upstream_id: str, kind: Binding | None, groups: frozenset[int], snapshot: Snapshot
) -> tuple[AccountView, ...]:
    """The accounts of these groups that serve the model: looked for once a snapshot, not once a request."""
    found = snapshot.pools.get((groups, kind, upstream_id))
    if found is None:
        found = rank(
            account
            for account in snapshot.accounts
            if account.groups & groups and account.state is AccountState.READY and _serves(account, upstream_id, kind)
        )
        if len(snapshot.pools) >= POOLS_KEPT:
            snapshot.pools.clear()
        snapshot.pools[groups, kind, upstream_id] = found
    return found


def _serves(account: AccountView, upstream_id: str, kind: Binding | None) -> bool:
    return kind in (None, account.kind, account.transport) and account.serves(upstream_id)


def _that_take_images(count: int, candidates: tuple[AccountView, ...]) -> tuple[AccountView, ...]:
    """The accounts whose upstream takes so many images. Raises a 400 where none does."""
    if not count:
        return candidates
    able = tuple(account for account in candidates if account.most_images >= count)
    if able:
        return able
    most = max(account.most_images for account in candidates)
    if most:
        raise invalid("too_many_images", f"{count} images, {most} maximum for this model", "messages")
    raise invalid("unsupported_content_type", "the model takes no images: its upstream reads text alone", "messages")


def _parameters(request: Request, named: Named) -> Mapping[str, str]:
    """The base model's parameters, with thinking switched on by the twin's name or by the request itself."""
    model, on = named.model, named.thinking or request.thinking.enabled
    return {**model.parameters, **model.thinking_parameters} if on else model.parameters


def _no_account(upstream_id: str, kind: Binding | None, key: KeyView, snapshot: Snapshot) -> ApiError:
    """The message tells the classes of the reason, never an account's name."""
    allowed = [account for account in snapshot.accounts if account.groups & key.groups]
    if not allowed:
        reason = "no account group of this team holds an account"
    elif not any(_serves(account, upstream_id, kind) for account in allowed):
        reason = "no account serves this model"
    else:
        reason = "every account that serves this model is resting or switched off"
    return ApiError(
        Kind.NO_CAPACITY, "no_account", f"No account is available: {reason}.", retry_after=30, culprit=Culprit.GATEWAY
    )
