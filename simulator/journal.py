"""What the simulator was sent, for assertions: one entry a run or call, newest first, never a credential."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

KEPT = 5000
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"})


@dataclass
class Entry:
    """One contact. ``ended`` is null while it runs; ``seconds`` is how long it took.

    ``ended``: complete, error:CAUSE, refused:REASON, cancelled (the client went away), cut, reset or garbage.
    ``text`` is the latest user text; ``history`` and ``images`` hold sizes; ``answers`` what the client answered;
    ``fields`` a provider's request without its content.
    """

    number: int
    time: float
    transport: str
    account: str
    request_id: str = ""
    model: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    system: str = ""
    text: str = ""
    history: list[tuple[str, int]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    seqnos: list[int] = field(default_factory=list)
    duplicates: int = 0
    client_heartbeats: int = 0
    answers: list[str] = field(default_factory=list)
    deltas: int = 0
    ended: str | None = None
    seconds: float | None = None

    def end(self, how: str, now: float) -> None:
        """Notes the end once; what came first stands."""
        if self.ended is None:
            self.ended = how
            self.seconds = round(now - self.time, 4)


class Journal:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._count = 0

    def open(self, now: float, transport: str, account: str, headers: Mapping[str, str]) -> Entry:
        """A new entry; ``headers`` are copied without credentials."""
        self._count += 1
        entry = Entry(self._count, now, transport, account, headers=redact(headers))
        self._entries.appendleft(entry)
        return entry

    def clear(self) -> None:
        self._entries.clear()

    def read(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Entries as JSON objects, newest first."""
        chosen = list(self._entries)[:limit] if limit is not None else self._entries
        return [asdict(entry) for entry in chosen]


def redact(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with lower-case names, credentials left out."""
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
