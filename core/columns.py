"""What the database would refuse, said before it does and in words."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db.models import Model

from core.invalid import InvalidValue


def check_columns(row: Model) -> None:
    """Lengths, choices and uniqueness, as the columns declare them. Raises the first ``InvalidValue``."""
    try:
        row.full_clean()
    except ValidationError as error:
        field, sentences = next(iter(error.message_dict.items()))
        raise InvalidValue(field, sentences[0]) from None
