"""The settings page: a form derived from ``KNOBS``, a look at the difference, and only then the change.

Every value travels with the one that was in force when its form was made (``seen.NAME``). What the person did not touch
is not sent on, so two people who turn different knobs do not disturb each other; where they turn the same one, the
second is shown what the first did and decides anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from django.contrib import messages
from django.http import QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from msgspec import Struct

from core import settings_store
from core.models import Setting
from core.settings import KNOBS, Knob, check_value, show_value
from core.settings_store import Change, Conflict, Edit
from panel.access import PanelRequest, actor_of
from panel.formats import size

RECENT = 8
PAGE = 50
SEEN = "seen."


class Field(Struct, frozen=True):
    """A knob in the form. ``shown`` stands in the input, ``seen`` is in force; ``row`` tells who turned it."""

    knob: Knob
    shown: str
    seen: str
    row: Setting | None = None
    problem: str = ""

    @property
    def default(self) -> str:
        return describe(self.knob, self.knob.default)

    @property
    def shape(self) -> str:
        """Which input the knob gets."""
        return {bool: "switch", str: "text"}.get(self.knob.kind, "number")

    @property
    def is_on(self) -> bool:
        return self.shown == "on"

    @property
    def low(self) -> str:
        return show_value(self.knob.minimum)

    @property
    def high(self) -> str:
        return show_value(self.knob.maximum)

    @property
    def step(self) -> str:
        return "1" if self.knob.kind is int else "any"


class Difference(Struct, frozen=True):
    """A line of the review. ``by`` is set when the value moved since the form was made: who moved it."""

    name: str
    help: str
    seen: str
    wanted: str
    before: str
    after: str
    by: str = ""


class Line(Struct, frozen=True):
    """A change as the history shows it."""

    change: Change
    before: str
    after: str


def settings(request: PanelRequest) -> HttpResponseBase:
    """GET: the form. POST: the difference to what is in force, to be confirmed."""
    if request.method != "POST":
        return _form(request, {}, {})
    sent = {name: request.POST[name] for name in KNOBS if name in request.POST and SEEN + name in request.POST}
    if request.POST.get("reset") in KNOBS:
        name = request.POST["reset"]
        sent[name] = show_value(KNOBS[name].default)
    touched = {name: value for name, value in sent.items() if value.strip() != request.POST.get(SEEN + name)}
    problems = _problems(touched)
    if problems or not sent:
        return _form(request, sent, problems, 400)
    if not touched:
        messages.info(request, "Nothing was changed.")
        return redirect("settings")
    return _review(request, touched, request.POST)


def settings_save(request: PanelRequest) -> HttpResponseBase:
    """Saves what was reviewed, or shows the difference anew when somebody was faster."""
    sent = {name: request.POST[name] for name in KNOBS if name in request.POST and SEEN + name in request.POST}
    problems = _problems(sent)
    if problems or not sent:
        return _form(request, sent, problems, 400)
    reason = request.POST.get("reason", "").strip().replace("\0", "")[:500]
    edits = [Edit(name, request.POST[SEEN + name], value) for name, value in sent.items()]
    try:
        settings_store.change_settings(edits, actor_of(request, reason))
    except Conflict:
        return _review(request, sent, request.POST, 409)
    many = "1 setting" if len(edits) == 1 else f"{len(edits)} settings"
    messages.success(request, f"{many} saved, in force within a second.")
    return redirect("settings")


def settings_history(request: PanelRequest) -> HttpResponseBase:
    """Who turned which knob, newest first; ``?name=`` of one knob alone."""
    name, before = request.GET.get("name", ""), request.GET.get("before", "")
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    changes, older = settings_store.last_changes(PAGE, name if name in KNOBS else "", number)
    context = {"lines": _lines(changes), "older": older, "name": name if name in KNOBS else "", "names": KNOBS}
    return render(request, "panel/settings_history.html", context)


def describe(knob: Knob, value: object) -> str:
    """A value with its unit, large byte counts also in a unit that can be read."""
    text = show_value(value)
    if not text:
        return "empty"
    if knob.unit == "bytes" and isinstance(value, int) and value >= 1024:
        return f"{text} bytes ({size(value)})"
    return f"{text} {knob.unit}".rstrip()


def _form(
    request: PanelRequest, sent: Mapping[str, str], problems: Mapping[str, str], status: int = 200
) -> HttpResponseBase:
    changes, _ = settings_store.last_changes(RECENT)
    context = {
        "groups": [(group, list(fields)) for group, fields in groupby(_fields(sent, problems), lambda f: f.knob.group)],
        "lines": _lines(changes),
        "refused": status != 200,
    }
    return render(request, "panel/settings.html", context, status=status)


def _fields(sent: Mapping[str, str], problems: Mapping[str, str]) -> Sequence[Field]:
    """Every knob with what is in force; a stored value that is out of bounds is shown with what is wrong with it."""
    turned = settings_store.turned()
    fields = []
    for name, knob in KNOBS.items():
        row = turned.get(name)
        seen = show_value(row.value if row else knob.default)
        problem = problems.get(name) or ("" if name in sent else _problem(name, seen))
        fields.append(Field(knob, sent.get(name, seen), seen, row, problem))
    return fields


def _review(request: PanelRequest, wanted: Mapping[str, str], post: QueryDict, status: int = 200) -> HttpResponseBase:
    differences = _differences(wanted, post)
    context = {
        "differences": differences,
        "moved": [item for item in differences if item.by],
        "reason": post.get("reason", ""),
    }
    return render(request, "panel/settings_review.html", context, status=status)


def _differences(wanted: Mapping[str, str], post: QueryDict) -> Sequence[Difference]:
    turned = settings_store.turned()
    found = []
    for name, text in wanted.items():
        knob, row = KNOBS[name], turned.get(name)
        now = row.value if row else knob.default
        moved = show_value(now) != post.get(SEEN + name)
        found.append(
            Difference(
                name=name,
                help=knob.help,
                seen=show_value(now),
                wanted=text,
                before=describe(knob, now),
                after=describe(knob, check_value(name, text)),
                by=_who_moved(name, row) if moved else "",
            )
        )
    return found


def _who_moved(name: str, row: Setting | None) -> str:
    if row is not None:
        return row.updated_by
    changes, _ = settings_store.last_changes(1, name)
    return changes[0].actor if changes else "somebody"


def _problems(values: Mapping[str, str]) -> dict[str, str]:
    return {name: problem for name, text in values.items() if (problem := _problem(name, text))}


def _problem(name: str, text: str) -> str:
    try:
        check_value(name, text)
    except ValueError as error:
        return str(error)
    return ""


def _lines(changes: Sequence[Change]) -> Sequence[Line]:
    return [Line(change, _word(change.name, change.before), _word(change.name, change.after)) for change in changes]


def _word(name: str, value: object) -> str:
    if value is None:
        return "default"
    knob = KNOBS.get(name)
    return describe(knob, value) if knob else show_value(value)
