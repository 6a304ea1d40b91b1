"""What a script can make the upstream do, in no protocol: a face renders each step on its own wire."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a client tool. ``id`` empty means: make one. ``tail`` is added to the id that is made."""

    name: str
    arguments: Mapping[str, Any]
    tail: str = ""


class Announce(Enum):
    """How arguments are shown before the call itself."""

    CUMULATIVE = "each announcement repeats what was there"
    CHARACTERS = "one character a piece"


@dataclass(frozen=True, slots=True)
class Calls:
    """Parallel calls. Where the client answers on the same stream, the script is sent the results' texts; without
    ``wait`` it goes on at once."""

    calls: tuple[Call, ...]
    announce: Announce = Announce.CUMULATIVE
    twice: bool = False
    probe: bool = False
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """For ever, until the client goes away."""

    heartbeats: bool


@dataclass(frozen=True, slots=True)
class Fail:
    cause: str


class Break(Enum):
    """Ends that are not ends."""

    CUT = "EOF without an end frame"
    RESET = "connection reset"
    GARBAGE = "a frame nobody can decode"


@dataclass(frozen=True, slots=True)
class Native:
    """One of the upstream's own tools; the client must refuse it."""

    kind: str


@dataclass(frozen=True, slots=True)
class Ask:
    """An approval question; the script is sent ``approved`` or ``rejected``."""

    kind: str


@dataclass(frozen=True, slots=True)
class StoreImages:
    """The upstream writes each image of the turn to the client's workspace and reads it back."""


@dataclass(frozen=True, slots=True)
class Wear:
    """Changes how everything after it is rendered: mixed gzip frames, unknown fields and members."""

    gzip: bool = False
    unknown: bool = False


class Spend(Enum):
    """The form in which usage is reported at the end."""

    PLAIN = "plain"
    NONE = "none"
    NESTED = "nested"
    CACHE = "cache"


class Quirk(Enum):
    """What providers are known to get wrong; the agent does not."""

    EMPTY = "a 200 without an answer"
    JSON_ERROR = "an error as JSON inside a 200"
    SECOND_END = "the end twice"
    LATE_ERROR = "an error behind the end"
    BLANK_FINISH = "an empty finish reason in every chunk"
    INTERLEAVED = "the pieces of parallel calls in turns"
    OTHER_FIELD = "thinking in the other field"


NATIVE_KINDS = (
    "shell",
    "shell_stream",
    "background_shell",
    "write",
    "delete",
    "grep",
    "read",
    "ls",
    "diagnostics",
    "list_mcp_resources",
    "read_mcp_resource",
    "fetch",
    "unknown",
)
QUERY_KINDS = (
    "web_search",
    "ask_question",
    "switch_mode",
    "exa_search",
    "exa_fetch",
    "create_plan",
    "web_fetch",
)

Step = Text | Thinking | Calls | Pause | Stall | Fail | Break | Native | Ask | StoreImages | Wear | Spend | Quirk
Script = Generator[Step, tuple[str, ...], None]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool the client declared. ``name`` is the wire name, ``tool_name`` the bare one."""

    name: str
    tool_name: str
    provider: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing that was said before. ``role``: user, assistant, thinking, call or tool (a call's result)."""

    role: str
    text: str
    name: str = ""
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that a model would be shown.

    ``text`` is the latest user text. ``results`` holds the texts of the tool results that the history ends with;
    empty when something was said after them. ``asked`` is the user text those results belong to.
    """

    model: str
    text: str
    system: str = ""
    history: tuple[Utterance, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tools: tuple[Tool, ...] = ()
    results: tuple[str, ...] = ()
    asked: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
