"""``docs/gemini.md`` tells what the code refuses. To renew its table: ``python -m`` this module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gateway.protocols.gemini import features
from gateway.protocols.gemini.features import Feature

PAGE = Path(__file__).parents[4] / "docs" / "gemini.md"
START = "<!-- features: kept equal to gateway/protocols/gemini/features.py by a test -->\n"
END = "<!-- end of features -->\n"


def rows() -> Iterable[tuple[str, Feature]]:
    """Every refused field as callers write it, and why."""
    yield from features.BODY.items()
    yield from ((f"tools[i].{name}", feature) for name, feature in features.TOOLS.items())
    yield "toolConfig", features.TOOL_CONFIG
    yield from ((f"contents[i].parts[j].{name}", feature) for name, feature in features.PARTS.items())
    yield from ((f"generationConfig.{name}", feature) for name, feature in features.CONFIG.items())
    yield from ((f"generationConfig.{name}", feature) for name, feature in features.CONFIG_VALUES.items())


def table() -> str:
    lines = ["| field | feature | message | advice |", "|---|---|---|---|"]
    lines += [f"| `{field}` | `{row.name}` | {row.message} | {row.advice} |" for field, row in rows()]
    return "\n".join(lines) + "\n"


def test_the_page_lists_what_the_code_refuses() -> None:
    _, _, rest = PAGE.read_text().partition(START)
    assert rest.partition(END)[0] == table()


def _renew() -> None:
    head, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(head + START + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    _renew()
