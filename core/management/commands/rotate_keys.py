from __future__ import annotations

from itertools import islice
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import Model

from core import command
from core.encryption import SealedField, SealError, keyring

BATCH = 500


class Command(command.Command):
    help = (
        "Seal every stored secret anew with the first key of POOLGATE_ENCRYPTION_KEYS. "
        "Afterwards the older keys may be taken out."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        broken = 0
        for model in apps.get_models():
            for column in [field.name for field in model._meta.concrete_fields if isinstance(field, SealedField)]:
                done, failed = reseal_column(model, column)
                broken += failed
                as_they_were = model._default_manager.count() - done - failed
                self.stdout.write(
                    f"{model._meta.label}.{column}: {done} sealed anew, {failed} could not be opened, "
                    f"{as_they_were} have the first key already"
                )
        if broken:
            raise CommandError(f"{broken} secrets are sealed with a key that is not configured. Keep the older keys.")


def reseal_column(model: type[Model], column: str) -> tuple[int, int]:
    """How many rows were sealed anew, and how many could not be opened. Each batch is its own transaction: a rotation
    that was stopped goes on where it was.
    """
    done = failed = 0
    rows = model._default_manager.exclude(**{column: None})
    names = iter(list(rows.values_list("pk", flat=True)))
    while batch := list(islice(names, BATCH)):
        with transaction.atomic():
            changed: list[Model] = []
            for row in rows.select_for_update().filter(pk__in=batch).only("pk", column):
                sealed = bytes(getattr(row, column))
                if keyring().is_current(sealed):
                    continue
                try:
                    setattr(row, column, keyring().reseal(sealed))
                    changed.append(row)
                except SealError:
                    failed += 1
            model._default_manager.bulk_update(changed, [column])
            done += len(changed)
    return done, failed
