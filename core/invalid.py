"""The one way to refuse a value: the field it was meant for, and a sentence for the person who typed it."""

from __future__ import annotations


class InvalidValue(ValueError):
    """``field`` is the column's name, so that a form can show ``sentence`` beside it."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field = field
        self.sentence = sentence
