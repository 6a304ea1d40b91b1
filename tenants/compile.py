"""Rows of this app → frozen values for the snapshot. The hot path reads these, never rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from core.invalid import InvalidValue

if TYPE_CHECKING:
    from tenants.models import ApiKey


_PATTERN = re.compile(r"[A-Za-z0-9*?\[][A-Za-z0-9._:/*?\[\]@!-]{0,159}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,159}")
MOST_PATTERNS = 200

W = TypeVar("W", bound=StrEnum)


class StructuredOutput(StrEnum):
    """What a key gets when it asks for JSON by a schema and no upstream enforces one."""

    REFUSE = "refuse"
    EMULATE = "emulate"  # asked for in the prompt, checked, tried once more


class ToolChoiceOutcome(StrEnum):
    """What a caller gets when a call that was demanded has not come at the second try either."""

    STRICT = "strict"  # 502 upstream_missing_tool_call
    LENIENT = "lenient"  # the text that came instead, marked by a header


class Member(Struct, frozen=True):
    """A membership: its id, and how many requests the keys that its user made for the team may run at once."""

    id: int = 0
    limit: int = 0


NOBODY = Member()
_NO_MEMBERS: Mapping[tuple[int, int], Member] = {}


class KeyView(Struct, frozen=True):
    """What the data plane knows of an API key. ``digest`` is the HMAC of the whole key; ``expires_at`` Unix seconds.

    ``models`` empty means every model; ``groups`` are the account groups that the key's team may use.
    ``fallback_model`` serves names that stand for nothing. ``expose_thinking`` None: as the setting says.
    ``drop_hosted_tools``: beside a portable tool they are left out, else refused. ``max_concurrency`` 0: no cap, as for
    ``member_limit`` (of the membership ``member_id``, 0: of nobody) and ``team_limit``.
    ``kilo_tool_strict``: what the user says demands a call. ``stop_after_calls``: over text, the turn ends with its
    calls; None: where a call is demanded.
    """

    row_id: int
    public_id: str
    digest: bytes
    name: str
    team_id: int
    team: str
    groups: frozenset[int]
    models: tuple[str, ...] = ()
    expires_at: float | None = None
    fallback_model: str = ""
    expose_thinking: bool | None = None
    drop_hosted_tools: bool = True
    structured_output: StructuredOutput = StructuredOutput.REFUSE
    kilo_tool_strict: bool = False
    stop_after_calls: bool | None = None
    tool_choice_outcome: ToolChoiceOutcome = ToolChoiceOutcome.STRICT
    max_concurrency: int = 0
    member_id: int = 0
    member_limit: int = 0
    team_limit: int = 0
    store_responses: bool = True

    def __repr__(self) -> str:
        return f"KeyView(row_id={self.row_id}, public_id={self.public_id!r})"


def compile_keys(
    rows: Iterable[ApiKey],
    groups_of: Mapping[int, frozenset[int]],
    members: Mapping[tuple[int, int], Member] = _NO_MEMBERS,
) -> dict[str, KeyView]:
    """Public id → view of every key that is not revoked. ``groups_of``: team id → ids of the groups it may use;
    ``members``: (user id, team id) → membership.

    Expired keys stay in: the caller of one deserves to hear that it expired. Raises ``InvalidValue``.
    """
    return {row.public_id: compile_key(row, groups_of, members) for row in rows if row.revoked_at is None}


def compile_key(
    row: ApiKey,
    groups_of: Mapping[int, frozenset[int]],
    members: Mapping[tuple[int, int], Member] = _NO_MEMBERS,
) -> KeyView:
    """One view. Raises ``InvalidValue``."""
    if not row.name.strip():
        raise InvalidValue("name", "a key needs a name.")
    models = _patterns(row.allowed_models)
    member = members.get((row.created_by_id or 0, row.team_id), NOBODY)
    return KeyView(
        row_id=row.pk,
        public_id=row.public_id,
        digest=bytes(row.digest),
        name=row.name,
        team_id=row.team_id,
        team=row.team.slug,
        groups=groups_of.get(row.team_id, frozenset()),
        models=models,
        expires_at=row.expires_at.timestamp() if row.expires_at else None,
        expose_thinking=row.expose_thinking,
        fallback_model=_fallback(row.fallback_model, models),
        drop_hosted_tools=row.drop_hosted_tools,
        structured_output=_word(StructuredOutput, "structured_output", row.structured_output),
        kilo_tool_strict=row.kilo_tool_strict,
        stop_after_calls=row.stop_after_calls,
        tool_choice_outcome=_word(ToolChoiceOutcome, "tool_choice_outcome", row.tool_choice_outcome),
        max_concurrency=row.max_concurrency,
        member_id=member.id,
        member_limit=member.limit,
        team_limit=row.team.max_concurrency,
        store_responses=row.team.store_responses,
    )


def _patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_PATTERNS:
        raise InvalidValue("allowed_models", f"a list of at most {MOST_PATTERNS} model names is needed.")
    for pattern in value:
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            raise InvalidValue("allowed_models", "holds something that is no model name.")
    return tuple(value)


def _fallback(name: str, models: tuple[str, ...]) -> str:
    if name and not _MODEL.fullmatch(name):
        raise InvalidValue("fallback_model", "must be the name of one model.")
    if name and models and not any(fnmatchcase(name, pattern) for pattern in models):
        raise InvalidValue("fallback_model", "is not among the models that this key may use.")
    return name


def _word(words: type[W], field: str, value: str) -> W:
    try:
        return words(value)
    except ValueError:
        raise InvalidValue(field, f"must be one of {', '.join(words)}.") from None
