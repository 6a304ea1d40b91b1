"""What can be done to the catalogue of models and aliases. Each verb writes its audit row and publishes, in one
transaction, and checks a name by compiling the catalogue with it. Wrong input raises ``InvalidValue``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from django.db import transaction

from accounts.compile import compile_model, usual_thinking
from accounts.kinds import WAYS, AccountKind
from accounts.models import CatalogueModel
from accounts.naming import THINKING, compile_alias, compile_names
from accounts.offered import Offered, fold
from accounts.offers import OFFERS
from core import audit, publish
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from core.invalid import InvalidValue
from core.jobs import Counts

log = logging.getLogger(__name__)

Source = CatalogueModel.Source

DEFINABLE = frozenset(CatalogueModel.AUDITED) - {"name", "alias_of", "source", "overrides", "missing_since"}
"""The columns that an admin may set."""

OWNERS = {"claude": "anthropic", "gpt": "openai", "gemini": "google", "grok": "xai"}
_CURSORS_OWN = frozenset({"", AccountKind.CURSOR.value, *(way.value for way in WAYS[AccountKind.CURSOR])})


@transaction.atomic
def define_model(name: str, *, source: str = Source.ADMIN, actor: Actor = SYSTEM, **fields: Any) -> CatalogueModel:
    """Adds a model to the catalogue or changes one. ``fields``: columns of ``CatalogueModel``; others keep their value.

    What an admin sets, the upstream's list does not change any more. Raises ``TypeError`` for a column that does not
    exist or cannot be set.
    """
    row = _lock_name(name)
    if row is not None and row.alias_of:
        raise InvalidValue("name", "is an alias; remove it first.")
    unknown = set(fields) - DEFINABLE
    if unknown:
        raise TypeError(f"a catalogue model has no {', '.join(sorted(unknown))}")
    if row is None:
        fields["source"] = source
    if source == Source.ADMIN:
        set_before = row.overrides if row else []
        fields["overrides"] = sorted({*set_before, *fields} & DEFINABLE)
    return _define(row, name, "model.define", actor, **fields)


@transaction.atomic
def follow_upstream(name: str, *, actor: Actor = SYSTEM) -> CatalogueModel:
    """Lets the upstream's list change again what an admin had set; it does so with its next refresh."""
    row = _lock_name(name)
    if row is None or row.alias_of:
        raise InvalidValue("name", "is no model of the catalogue.")
    return _define(row, name, "model.follow_upstream", actor, overrides=[])


def learn(
    offered: Mapping[str, Offered],
    now: datetime,
    *,
    complete: bool,
    enable: bool,
    elsewhere: frozenset[str] = frozenset(),
) -> Counts:
    """Brings what upstreams offer into the catalogue: new names (``enable``: callers get them at once), what is said of
    names that are there, and with ``complete`` which ones nobody offers any more (``elsewhere``: names
    that are offered to others). Nothing is ever deleted, and what an admin set stays as it is.
    """
    bases, siblings = fold(offered)
    rows = {row.name: row for row in CatalogueModel.objects.all()}
    patterns = [name for name, row in rows.items() if "*" in name and row.enabled and not row.alias_of]
    counts = dict.fromkeys(("added", "changed", "missing", "refused", "same"), 0)
    wanted: list[tuple[str, dict[str, Any]]] = [(base.id, _told(base)) for base in bases]
    wanted += [
        (one.id, {"upstream_id": one.base, "parameters": dict(one.parameters)} | _told(offered[one.base]))
        for one in siblings
        if not one.id.endswith(THINKING)  # a twin is made of the base by itself
    ]
    for name, told in wanted:
        if name not in rows and any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        counts[_bring(name, told, enable=enable)] += 1
    if complete and offered:
        counts["missing"] = _mark(now, elsewhere.union(name for one in offered.values() for name in one.names))
    return counts


@transaction.atomic
def define_alias(name: str, target: str, *, enabled: bool = True, actor: Actor = SYSTEM) -> CatalogueModel:
    """Adds a name or pattern that leads to ``target``, or points an alias elsewhere. Circles are refused."""
    row = _lock_name(name)
    if row is not None and not row.alias_of:
        raise InvalidValue("name", "is a model; remove it first.")
    row = _define(row, name, "alias.define", actor, alias_of=target or "?", enabled=enabled)
    if compile_names(CatalogueModel.objects.all()).find(target) is None:
        raise InvalidValue("alias_of", f"there is no model {target}.")
    return row


@transaction.atomic
def delete_model(row: CatalogueModel, *, actor: Actor = SYSTEM) -> None:
    """Removes a model or an alias. Raises ``InvalidValue`` while aliases lead to it."""
    leading = CatalogueModel.objects.filter(alias_of__in=[row.name, row.name + THINKING]).exclude(pk=row.pk)
    if leading:
        raise InvalidValue("name", f"aliases lead to it: {', '.join(alias.name for alias in leading)}.")
    audit.record(actor, "alias.delete" if row.alias_of else "model.delete", row, before=audit.state(row))
    row.delete()
    compile_names(CatalogueModel.objects.all())
    publish.bump()


@transaction.atomic
def ensure_catalogue(*, actor: Actor = SYSTEM) -> int:
    """Fills an empty catalogue with the defaults; says how many were added. A catalogue with models is left alone."""
    if CatalogueModel.objects.exists():
        return 0
    for offer in OFFERS:
        define_model(
            offer.name,
            owner=offer.owner,
            display_name=offer.display_name,
            context_tokens=offer.context_tokens,
            max_output_tokens=offer.max_output_tokens,
            source=Source.SEED,
            actor=actor,
        )
    return len(OFFERS)


def _told(model: Offered) -> dict[str, Any]:
    """The columns that the upstream knows something of."""
    told: dict[str, Any] = {}
    if model.display_name:
        told["display_name"] = model.display_name[:128]
    if model.context_tokens:
        told["context_tokens"] = model.context_tokens
    if model.parameters is not None:
        told["thinking_parameters"] = usual_thinking() if "thinking" in model.parameters else {}
    if model.max_mode is not None:
        told["max_mode"] = model.max_mode
    return told


def _bring(name: str, told: dict[str, Any], *, enable: bool) -> str:
    """Says what became of it: added, changed, same or refused."""
    try:
        with transaction.atomic():
            row = _lock_name(name)
            if row is None:
                owner = OWNERS.get(name.partition("-")[0], "cursor")
                told |= {"source": Source.UPSTREAM, "owner": owner, "enabled": enable, "upstream": "cursor"}
                told["max_output_tokens"] = min(64_000, told.get("context_tokens", 64_000))
                _define(None, name, "model.learn", SYSTEM, **told)
                return "added"
            if row.alias_of or row.upstream not in _CURSORS_OWN:
                return "same"
            news = {column: value for column, value in told.items() if column not in row.overrides}
            news = {column: value for column, value in news.items() if getattr(row, column) != value}
            if not news:
                return "same"
            _define(row, name, "model.learn", SYSTEM, **news)
            return "changed"
    except InvalidValue as error:
        log.info("the upstream offers a model that cannot be taken over: %s", error.field)
        return "refused"


def _mark(now: datetime, offered: frozenset[str]) -> int:
    """Notes which names nobody offers any more, and which are back. Returns how many are missing."""
    missing = 0
    for row in _followed():
        gone = (row.upstream_id or row.name) not in offered and row.name != "default"
        missing += gone
        if gone != (row.missing_since is not None):
            with transaction.atomic():
                _define(row, row.name, "model.learn", SYSTEM, missing_since=now if gone else None)
    return missing


def _followed() -> Iterator[CatalogueModel]:
    """The models that come from an upstream's list, or should be on one."""
    rows = CatalogueModel.objects.filter(alias_of="", source__in=(Source.SEED, Source.UPSTREAM))
    return (row for row in rows if "*" not in row.name and row.upstream in _CURSORS_OWN)


def _lock_name(name: str) -> CatalogueModel | None:
    return CatalogueModel.objects.select_for_update().filter(name=name).first()


def _define(row: CatalogueModel | None, name: str, verb: str, actor: Actor, **columns: Any) -> CatalogueModel:
    """Saves one name, after the catalogue as a whole has compiled with it."""
    before = audit.state(row) if row else None
    row = row or CatalogueModel(name=name)
    for column, value in columns.items():
        setattr(row, column, dict(value) if isinstance(value, Mapping) else value)
    if row.alias_of:
        compile_alias(row)
    else:
        compile_model(row)
    check_columns(row)
    row.save()
    compile_names(CatalogueModel.objects.all())
    audit.record(actor, verb, row, before=before, after=audit.state(row))
    publish.bump()
    return row
