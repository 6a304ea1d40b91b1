"""A turn over an upstream that knows nothing but text: what it is told, and its words as events (``textbridge``)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gateway.contracts import DEFAULT_POLICY, Policy
from gateway.textbridge.assembler import Bridge
from gateway.textbridge.prompt import is_free, render
from ir.events import Event, Finish, FinishReason, PartKind
from ir.request import Request
from ir.usage import Usage

Piece = tuple[PartKind, str]
"""Words of the model, as the upstream tells them apart: text or reasoning."""


class Speech:
    """For one attempt. ``thinking``: the model has to be asked in words to think; ``most_images``: how many images the
    upstream takes beside the text. Once ``done``, the upstream need not be heard out."""

    def __init__(
        self, request: Request, policy: Policy = DEFAULT_POLICY, *, thinking: bool = False, most_images: int = 0
    ) -> None:
        trigger = _draw()
        while not is_free(request, trigger):
            trigger = _draw()
        self.told = render(request, trigger, policy, thinking=thinking, most_images=most_images)
        self._bridge = Bridge(request, trigger, policy, thinking=thinking, exposed=request.thinking.visible)

    @property
    def done(self) -> bool:
        return self._bridge.done

    def feed(self, pieces: Sequence[Piece]) -> list[Event]:
        bridge = self._bridge
        if len(pieces) == 1:
            kind, text = pieces[0]
            return bridge.feed(text) if kind is PartKind.TEXT else bridge.think(text)
        events: list[Event] = []
        for kind, text in pieces:
            events += bridge.feed(text) if kind is PartKind.TEXT else bridge.think(text)
        return events

    def close(self, reason: FinishReason, usage: Usage) -> list[Event]:
        """The regular end of the upstream's answer."""
        return self._bridge.close(Finish(reason, usage))


def _draw() -> str:
    return f"<<CALL_{secrets.token_hex(4)}>>"
