"""Token estimates for upstreams that do not tell, and for limits that are kept locally.

The weights are the pool seed's: letters and spaces / 4.5, digits / 2, other ASCII / 1.5, non-ASCII / 1.5; 4 a message,
1,024 an image. Counting is three passes in C over the bytes, because a prompt may be a megabyte long. An estimate is
always marked as one (``Usage.source``).
"""

from __future__ import annotations

from ir.request import Image, Reasoning, Request, Text, ToolCall, ToolResult

IMAGE_TOKENS = 1024
MESSAGE_TOKENS = 4
MAX_PER_CHARACTER = 1 / 1.5
"""No text has more estimated tokens than this a character: a cheap upper bound."""

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123)) + b" "
_DIGITS = b"0123456789"


def estimate(text: str) -> float:
    """Tokens of a text, as a float so that many small pieces add up to what the whole would give."""
    raw = text.encode("ascii", "ignore") if not text.isascii() else text.encode()
    rest = raw.translate(None, _LETTERS)
    others = len(rest.translate(None, _DIGITS))
    letters, digits = len(raw) - len(rest), len(rest) - others
    return letters / 4.5 + digits / 2 + (others + len(text) - len(raw)) / 1.5


def estimate_request(request: Request, tool_bytes: int = 0) -> int:
    """Input tokens of a whole request; ``tool_bytes`` is the size of the tool definitions as compact JSON."""
    total = estimate(request.system) + tool_bytes / 4.5
    for message in request.messages:
        total += MESSAGE_TOKENS
        for part in message.content:
            match part:
                case Text() | Reasoning():
                    total += estimate(part.text)
                case ToolCall():
                    total += estimate(part.name) + estimate(part.arguments)
                case ToolResult():
                    total += _estimate_result(part)
                case Image():
                    total += IMAGE_TOKENS
    return max(1, round(total))


def _estimate_result(result: ToolResult) -> float:
    if isinstance(result.content, str):
        return estimate(result.content)
    return sum(estimate(item.text) if isinstance(item, Text) else IMAGE_TOKENS for item in result.content)
