"""Tags and filters of the panel's templates."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ops.queries import outcome_group
from panel import formats
from panel.formats import UNKNOWN, words

register = template.Library()

for _filter in (formats.words, formats.milliseconds, formats.count, formats.size, formats.share):
    register.filter(_filter.__name__, _filter)

_COLOURS = {
    "ok": "green",
    "caller": "yellow",
    "failed": "red",
    "ready": "green",
    "active": "green",
    "expired": "yellow",
    "cooling": "yellow",
    "draining": "blue",
    "probing": "azure",
    "needs_sign_in": "orange",
    "blocked": "red",
    "disabled": "secondary",
    "done": "green",
    "running": "blue",
    "lost": "orange",
    "overdue": "red",
    "working": "green",
    "resting": "yellow",
    "failing": "red",
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """A picture beside a text that says the same, hence hidden from screen readers."""
    sprite = static("vendor/icons/icons.svg")
    return format_html(
        '<svg class="icon" width="24" height="24" aria-hidden="true"><use href="{}#{}"></use></svg>', sprite, name
    )


@register.simple_tag
def outcome_badge(outcome: str) -> SafeString:
    return _badge(outcome, _COLOURS[outcome_group(outcome)])


@register.simple_tag
def condition_badge(condition: str) -> SafeString:
    return _badge(condition, _COLOURS.get(condition, "secondary"))


@register.simple_tag
def when(at: datetime | None, style: str = "clock") -> SafeString | str:
    """UTC in the markup and on hover; ``panel.js`` shows the reader's own zone. ``style``: clock, full or until."""
    if at is None:
        return UNKNOWN
    utc = at.astimezone(UTC)
    shown = utc.strftime("%H:%M:%S" if style == "clock" else "%Y-%m-%d %H:%M:%S")
    title = utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" title="{}" data-time="{}">{}</time>', utc.isoformat(), title, style, shown)


def _badge(text: str, colour: str) -> SafeString:
    return format_html('<span class="badge bg-{}-lt">{}</span>', colour, words(text))
