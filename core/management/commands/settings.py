from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from django.core.management.base import CommandError

from core import command, settings_store
from core.audit import COMMAND_LINE
from core.settings import KNOBS, check_value, show_value


class Command(command.Command):
    help = "Show and change the settings that are in force without a restart."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every setting with its value; * marks one that was changed")
        actions.add_parser("get", help="one value").add_argument("name", help="as listed")
        setting = actions.add_parser("set", help="change one")
        setting.add_argument("name", help="as listed")
        setting.add_argument("value", help="within the bounds that are listed")
        actions.add_parser("reset", help="back to the default").add_argument("name", help="as listed")
        actions.add_parser("docs", help="print docs/settings.md")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run(options["action"], options.get("name", ""), options.get("value", ""))
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _run(self, action: str, name: str, value: str) -> None:
        match action:
            case "set" | "reset" | "get" if name not in KNOBS:
                raise ValueError(f"There is no setting named {name}.{suggest(name)}")
            case "set":
                settings_store.set_setting(name, value, COMMAND_LINE)
                self._confirm(name)
            case "reset":
                settings_store.reset_setting(name, COMMAND_LINE)
                self._confirm(name)
            case "get":
                self.stdout.write(show_value(getattr(settings_store.current(), name)))
            case "docs":
                self.stdout.write("\n".join(write_docs()))
            case _:
                self._list()

    def _confirm(self, name: str) -> None:
        stored, knob = settings_store.rows(), KNOBS[name]
        note = "" if name in stored else " (the default)"
        self.stdout.write(f"{name} = {show_value(stored.get(name, knob.default))} {knob.unit}".rstrip() + note)

    def _list(self) -> None:
        stored = settings_store.rows()
        for name, knob in KNOBS.items():
            mark = "*" if name in stored else " "
            value = stored.get(name, knob.default)
            self.stdout.write(f"{mark} {name} = {show_value(value)} {knob.unit}".rstrip() + complaint(name, value))
            self.stdout.write(f"    {knob.help} ({knob.bounds}; default {show_value(knob.default) or 'empty'})")


def complaint(name: str, value: object) -> str:
    """What is wrong with a stored value: bounds may have moved since it was saved."""
    try:
        check_value(name, value)
    except ValueError as error:
        return f"   NOT IN FORCE: {error}"
    return ""


def suggest(name: str) -> str:
    """The settings that a mistyped name may have meant, as a sentence, or where to look."""
    near = [known for known in KNOBS if name in known] or get_close_matches(name, KNOBS)
    return f" Perhaps: {', '.join(near[:5])}." if near else " `manage.py settings list` shows all."


def write_docs() -> Iterator[str]:
    """The lines of ``docs/settings.md``."""
    yield from (
        "# Settings",
        "",
        "Turned on the panel's settings page or with `manage.py settings list|get|set|reset`; in force in every",
        "process within a second, without a restart. Written by `manage.py settings docs > docs/settings.md`.",
    )
    for group, knobs in groupby(KNOBS.values(), key=lambda knob: knob.group):
        yield from ("", f"## {group}", "", "| setting | default | may be | what it does |", "|---|---|---|---|")
        for knob in knobs:
            default = show_value(knob.default) or "empty"
            yield f"| `{knob.name}` | {default} | {knob.bounds} | {knob.help} |"
