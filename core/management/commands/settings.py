from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core import settings_store
from core.audit import COMMAND_LINE
from core.settings import KNOBS


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
            case _:
                self._list()

    def _show(self, name: str) -> None:
        if name not in KNOBS:
            raise ValueError(f"There is no setting named {name}.")
        self.stdout.write(str(getattr(settings_store.current(), name)))

    def _list(self) -> None:
        values, changed = settings_store.current(), settings_store.rows()
        for name, knob in KNOBS.items():
            mark = "*" if name in changed else " "
            self.stdout.write(f"{mark} {name} = {getattr(values, name)} {knob.unit}".rstrip())
            self.stdout.write(f"    {knob.help}")
