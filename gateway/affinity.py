"""Conversations stay on the account that they began on, because its upstream remembers them.

Which conversation a request belongs to is worked out from the request alone (``identify``), from the first of these
that it has:

1. a header in which its client names the session (``HEADERS``);
2. what its body says of it (``Request.session``): the session in Anthropic's ``metadata.user_id``, or OpenAI's
   ``prompt_cache_key``;
3. the stored answer that it goes on from (``previous_response_id``);
4. how it begins: the system text and the first message of the user.

Never an address or a user agent: many users share one. The key in Redis is a digest of that, of who asks (team and
API key) and of the upstream's model, made with a secret of ours: nothing of a request can be read from it, nor tried
out on it. Each model of a conversation is bound by itself, since an upstream remembers it for one model alone, and not
every account has them all.

A binding is a preference (``accounts.pool``), and it is kept through short troubles: a turn that was served elsewhere
because its account rested for a little while, was full, or could not be reached changes nothing, so that the
conversation comes home. It moves for good where the account rests for longer, or is no candidate any more. Bindings
are read with the round trip that admits a request, and written with the one that closes it, when it was served.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

import redis
from msgspec import Struct

from accounts.pool import Sticky
from core.redis_pipe import Argument, Pipe, PipeDown, PipeError
from core.settings import Settings
from ir.request import Image, Message, Request, Text, ToolResult

HEADERS = (
    b"x-session-id",  # opencode, and whoever follows the custom
    b"x-session-affinity",  # opencode
    b"x-claude-code-session-id",
    b"session-id",  # Codex
    b"session_id",  # Codex until 0.150
)
"""Headers that name a session, the first that is there counts."""

PREFIX = "poolgate:sticky:"

Command = tuple[Argument, ...]


class Origin(StrEnum):
    """What a conversation is known by."""

    HEADER = "header"
    BODY = "body"
    PREVIOUS = "previous"
    CONTENT = "content"


class Identity(Struct, frozen=True):
    """``name`` is ``KEY_ID-DIGEST``, which is all that is ever kept of a conversation.

    ``next_name``: by which a request will know it that goes on from the answer to this one; "" where that is kept
    nowhere, or where the conversation is known by a name of the caller's own.
    """

    name: str
    origin: Origin
    next_name: str = ""


def identify(
    request: Request,
    headers: Mapping[bytes, bytes],
    *,
    team_id: int,
    key_id: int,
    model: str,
    secret: str,
    answer_id: str = "",
) -> Identity:
    """The conversation of a request. Pure. ``model``: the upstream's; ``answer_id``: the ``response_id`` of the answer,
    where that will be stored."""
    digest = hashlib.blake2b(b"%d|%d|%s" % (team_id, key_id, model.encode()), digest_size=16, key=_key(secret))

    def name(kind: bytes, *texts: bytes) -> str:
        own = digest.copy()
        own.update(kind)
        for text in texts:
            own.update(b"|%d|" % len(text))
            own.update(text)
        return f"{key_id}-{own.hexdigest()}"

    for header in HEADERS:
        value = headers.get(header, b"").strip()
        if value:
            return Identity(name(b"session", value), Origin.HEADER)
    if request.session:
        return Identity(name(b"session", _bytes(request.session)), Origin.BODY)
    later = name(b"answer", answer_id.encode()) if answer_id else ""
    if request.follows:
        return Identity(name(b"answer", _bytes(request.follows)), Origin.PREVIOUS, later)
    return Identity(name(b"begins", *_beginning(request)), Origin.CONTENT, later)


def _beginning(request: Request) -> list[bytes]:
    first = next((message for message in request.messages if message.role == "user"), None)
    return [_bytes(request.system), *(_texts(first) if first is not None else ())]


def _texts(message: Message) -> list[bytes]:
    """What the user said first. Results of tools stand there when a client has cut the history off."""
    found: list[bytes] = []
    for part in message.content:
        match part:
            case Text(text):
                found.append(_bytes(text))
            case Image(media_type, encoded):
                found += [media_type.encode(), encoded.encode()]
            case ToolResult(call_id):
                found.append(_bytes(call_id))
            case _:
                pass
    return found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4)
def _key(secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(), digest_size=32, person=b"sticky").digest()


class Binding(Struct, frozen=True):
    """``bound_at`` and ``last`` (the last turn that the account served) in Unix seconds."""

    account_id: int
    bound_at: int
    last: int


def read(value: bytes | None) -> Binding | None:
    """A binding as Redis keeps it; None for anything else."""
    fields = value.split(b"|") if value is not None else []
    if len(fields) != 3 or not all(field.isdigit() for field in fields):
        return None
    return Binding(*map(int, fields))


def ask(conversation: Identity | None, settings: Settings, pipe: Pipe) -> Session | None:
    """Sends the question in line with what admits the request; None where conversations stay nowhere."""
    if conversation is None:
        return None
    return Session(conversation, settings, pipe.send("GET", PREFIX + conversation.name))


class Session:
    """The conversation of one request: bound to nobody before ``hear``."""

    def __init__(self, identity: Identity, settings: Settings, asked: asyncio.Future[bytes | None]) -> None:
        self.identity = identity
        self.binding: Binding | None = None
        self._settings = settings
        self._asked = asked

    async def hear(self, now: float) -> None:
        """Takes the answer. Never raises: without Redis no slot will be had either, and that is what is told."""
        try:
            self.binding = read(await self._asked)
        except (PipeDown, PipeError):
            return
        if self.binding is not None and self._life(self.binding, now) <= 0:
            self.binding = None

    @property
    def sticky(self) -> Sticky | None:
        """What selection is told."""
        return Sticky(self.binding.account_id) if self.binding is not None else None

    def served(self, account_id: int, rest: float | None, now: float) -> Sequence[Command]:
        """What is written once ``account_id`` has served the turn, at ``now`` in Unix seconds. ``rest``: how many more
        seconds the account that the conversation is bound to rests, 0 where it does not; None: it is no candidate."""
        old, name, later = self.binding, self.identity.name, self.identity.next_name
        if old is not None and old.account_id == account_id:
            kept = Binding(account_id, old.bound_at, int(now))
            commands = self._write(name, kept, now, "XX")  # unless somebody has cleared it meanwhile
        elif old is not None and rest is not None and rest <= self._settings.sticky_grace:
            kept, commands = old, []  # it comes home
        else:
            kept = Binding(account_id, int(now), int(now))
            commands = self._write(name, kept, now)
        return [*commands, *self._write(later, kept, now)] if later else commands

    def _write(self, name: str, binding: Binding, now: float, *how: str) -> list[Command]:
        life = self._life(binding, now)
        if life <= 0:
            return []
        value = f"{binding.account_id}|{binding.bound_at}|{binding.last}"
        return [("SET", PREFIX + name, value, "PX", int(life * 1000), *how)]

    def _life(self, binding: Binding, now: float) -> float:
        """Seconds for which the binding is good, from ``now`` on, when it is used now."""
        return min(self._settings.sticky_ttl, binding.bound_at + self._settings.sticky_longest - now)


def clear(
    client: redis.Redis, *, name: str | None = None, account_id: int | None = None, key_id: int | None = None
) -> int:
    """Forgets bindings: the one of that ``name``, or all to the account, of the key, or both. How many there were.

    Blocking, and for admins: Redis is walked through for them, since an index would cost every request something. A
    turn that runs meanwhile does not bring its binding back. Raises ``RedisError``.
    """
    if name is not None:
        return int(client.delete(PREFIX + name))
    gone, cursor = 0, 0
    pattern = f"{PREFIX}{'*' if key_id is None else key_id}-*"
    while True:
        cursor, keys = client.scan(cursor, match=pattern, count=1000)
        if account_id is not None and keys:
            found = [read(value) if isinstance(value, bytes) else None for value in client.mget(keys)]
            keys = [key for key, old in zip(keys, found, strict=True) if old and old.account_id == account_id]
        gone += int(client.unlink(*keys)) if keys else 0
        if not cursor:
            return gone
