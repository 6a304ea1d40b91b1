"""What a name that a caller used stands for. Pure.

An exact model comes before an exact alias, both before a model's pattern, and that before an alias's; among patterns
the one with the most fixed characters counts. Every name also exists with ``-thinking`` at its end; a doubled suffix
is nothing. An alias leads to a fixed name, which may be an alias again or a ``-thinking`` twin; circles do not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from accounts.compile import ModelView, compile_model, is_model_name
from core.invalid import InvalidValue

if TYPE_CHECKING:
    from accounts.models import CatalogueModel

THINKING = "-thinking"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
"""What a pattern may serve: the name goes to the upstream, into the record and into metrics."""


class Alias(Struct, frozen=True):
    """``name`` may hold ``*``; ``target`` is a name as a caller could use it."""

    name: str
    target: str


class Named(Struct, frozen=True):
    """``name`` is the model's own, in a pattern's case the one that matched; ``alias`` the first alias on the way."""

    model: ModelView
    name: str
    thinking: bool = False
    alias: str = ""

    @property
    def public(self) -> str:
        """The name under which a caller could ask for exactly this."""
        return self.name + THINKING if self.thinking else self.name


class Names(Struct, frozen=True):
    """The catalogue as callers see it: exact names as mappings, patterns in the order in which they are tried."""

    models: Mapping[str, ModelView] = {}
    patterns: tuple[ModelView, ...] = ()
    aliases: Mapping[str, Alias] = {}
    alias_patterns: tuple[Alias, ...] = ()

    def find(self, name: str) -> Named | None:
        """None for a name that stands for nothing. Raises ``InvalidValue`` for aliases that go round in a circle."""
        thinking, passed = False, list[str]()
        while True:
            entry = self._entry(name)
            if entry is None and name.endswith(THINKING) and not thinking:
                name, thinking = name.removesuffix(THINKING), True
                entry = None if name.endswith(THINKING) else self._entry(name)
            if entry is None:
                return None
            if isinstance(entry, ModelView):
                return Named(entry, name, thinking, passed[0] if passed else "")
            if entry.name in passed:
                raise InvalidValue("alias_of", f"goes round in a circle: {' → '.join([*passed, entry.name])}.")
            passed.append(entry.name)
            name = entry.target

    def _entry(self, name: str) -> ModelView | Alias | None:
        exact = self.models.get(name) or self.aliases.get(name)
        if exact is not None:
            return exact
        if name.endswith(THINKING) or not NAME.fullmatch(name):  # a pattern must not swallow the twin's suffix
            return None
        for pattern in self.patterns:
            if fnmatchcase(name, pattern.name):
                return pattern
        return next((alias for alias in self.alias_patterns if fnmatchcase(name, alias.name)), None)


def compile_names(rows: Iterable[CatalogueModel]) -> Names:
    """The enabled rows. Raises ``InvalidValue``; an alias whose target is gone or switched off is only unknown."""
    models: list[ModelView] = []
    aliases: list[Alias] = []
    for row in rows:
        if row.enabled and row.alias_of:
            aliases.append(compile_alias(row))
        elif row.enabled:
            models.append(compile_model(row))
    names = Names(
        models={model.name: model for model in models if not model.is_pattern},
        patterns=tuple(sorted((model for model in models if model.is_pattern), key=_narrowest_first)),
        aliases={alias.name: alias for alias in aliases if "*" not in alias.name},
        alias_patterns=tuple(sorted((alias for alias in aliases if "*" in alias.name), key=_narrowest_first)),
    )
    for alias in aliases:
        names.find(alias.target)
    return names


def compile_alias(row: CatalogueModel) -> Alias:
    """One alias; an unsaved row will do. Raises ``InvalidValue``."""
    if not is_model_name(row.name):
        raise InvalidValue("name", "use 1 to 128 letters, digits and . _ : / @ - (and * in a pattern).")
    if row.name.endswith(THINKING):
        raise InvalidValue("name", f"{THINKING} twins are made by themselves; name the base alias.")
    if not NAME.fullmatch(row.alias_of):
        raise InvalidValue("alias_of", "must be the name of one model.")
    return Alias(row.name, row.alias_of)


def _narrowest_first(entry: ModelView | Alias) -> tuple[int, str]:
    return -len(entry.name.replace("*", "")), entry.name
