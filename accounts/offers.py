"""The models a new installation offers. The admin's edits win afterwards: nothing here is applied twice.

Sizes are the vendors' published ones in tokens, except that Cursor's own models are given the window that Cursor uses
by default; ``context_length_exceeded`` from the upstream corrects an optimist.
"""

from __future__ import annotations

from msgspec import Struct


class Offer(Struct, frozen=True):
    name: str
    owner: str
    display_name: str
    context_tokens: int = 200_000
    max_output_tokens: int = 64_000


OFFERS = (
    Offer("default", "cursor", "Auto"),
    Offer("composer-2.5", "cursor", "Composer 2.5"),
    Offer("claude-sonnet-4.6", "anthropic", "Claude Sonnet 4.6"),
    Offer("claude-opus-4.6", "anthropic", "Claude Opus 4.6"),
    Offer("gpt-5.2", "openai", "GPT-5.2", context_tokens=272_000, max_output_tokens=128_000),
    Offer("gemini-2.5-flash", "google", "Gemini 2.5 Flash", context_tokens=1_048_576, max_output_tokens=65_536),
)
