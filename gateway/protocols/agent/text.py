"""Control tokens of models, taken out of the visible text, also when a token is cut over several deltas."""

from __future__ import annotations

import re

TOKENS = (
    "<|eos|>", "<|bos|>", "<|pad|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|begin_of_text|>", "<|im_start|>",
    "<|im_end|>", "<|im_sep|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|return|>",
)  # fmt: skip

_TOKEN = re.compile("|".join(map(re.escape, TOKENS)))
_LONGEST = max(map(len, TOKENS))


class TokenFilter:
    """Text in, text without control tokens out. What could still become a token is held back."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        if self._held:
            text = self._held + text
            self._held = ""
        elif "<" not in text:
            return text
        text = _TOKEN.sub("", text)
        start = text.rfind("<", max(0, len(text) - _LONGEST + 1))
        if start >= 0 and any(token.startswith(text[start:]) for token in TOKENS):
            self._held = text[start:]
            return text[:start]
        return text

    def flush(self) -> str:
        """The end of the part: what was held back was no token."""
        held, self._held = self._held, ""
        return held
