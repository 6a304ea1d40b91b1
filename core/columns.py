"""What the database would refuse, said before it does and in words."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.db.models import CharField, Model

from core.invalid import InvalidValue

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # invisible as well, but some scripts are not written without them


def check_columns(row: Model) -> None:
    """Lengths, choices and uniqueness, as the columns declare them, and texts of one line. Raises the first
    ``InvalidValue``."""
    try:
        row.full_clean()
    except ValidationError as error:
        field, sentences = next(iter(error.message_dict.items()))
        raise InvalidValue(field, sentences[0]) from None
    for column in row._meta.concrete_fields:
        value = getattr(row, column.attname)
        if isinstance(column, CharField) and isinstance(value, str) and not _is_one_line(value):
            raise InvalidValue(column.name, "must be one line of visible characters.")


def _is_one_line(text: str) -> bool:
    """Whether a text looks the same to everybody: a control character in a name would move the cursor of whoever lists
    it in a terminal, or turn the direction of the line around it."""
    return all(unicodedata.category(letter) not in _UNSEEN or letter in _JOINERS for letter in text)
