from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core import settings_store
from core.audit import COMMAND_LINE
from core.settings import KNOBS, check_value, show_value


class Command(BaseCommand):
    help = "Shows and changes the settings that are in force without a restart."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every setting with its value; * marks one that was changed")
        actions.add_parser("get", help="one value").add_argument("name")
        setting = actions.add_parser("set", help="change one")
        setting.add_argument("name")
        setting.add_argument("value")
        actions.add_parser("reset", help="back to the default").add_argument("name")
        actions.add_parser("docs", help="print docs/settings.md")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run(options["action"], options.get("name", ""), options.get("value", ""))
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _run(self, action: str, name: str, value: str) -> None:
        match action:
            case "set":
                settings_store.set_setting(name, value, COMMAND_LINE)
            case "reset":
                settings_store.reset_setting(name, COMMAND_LINE)
            case "get":
                self._show(name)
            case "docs":
                self.stdout.write("\n".join(write_docs()))
            case _:
                self._list()

    def _show(self, name: str) -> None:
        if name not in KNOBS:
            raise ValueError(f"There is no setting named {name}.")
        self.stdout.write(show_value(getattr(settings_store.current(), name)))

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
