"""What can be done to the catalogue of models and aliases. Each verb writes its audit row and publishes, in one
transaction, and checks a name by compiling the catalogue with it. Wrong input raises ``InvalidValue``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from accounts.compile import compile_model
from accounts.models import CatalogueModel
from accounts.naming import THINKING, compile_alias, compile_names
from accounts.offers import OFFERS
from core import audit, publish
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from core.invalid import InvalidValue


@transaction.atomic
def define_model(name: str, *, actor: Actor = SYSTEM, **fields: Any) -> CatalogueModel:
    """Adds a model to the catalogue or changes one. ``fields``: columns of ``CatalogueModel``; others keep their value.

    Raises ``TypeError`` for a column that does not exist.
    """
    row = _lock_name(name)
    if row is not None and row.alias_of:
        raise InvalidValue("name", "is an alias; remove it first.")
    unknown = set(fields) - (set(CatalogueModel.AUDITED) - {"alias_of"})
    if unknown:
        raise TypeError(f"a catalogue model has no {', '.join(sorted(unknown))}")
    return _define(row, name, "model.define", actor, **fields)


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
            actor=actor,
        )
    return len(OFFERS)


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
