"""``manage.py failover docs``: the failure tables as a page."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from core import command
from gateway import failure_table


class Command(command.Command):
    help = "Print what follows from each kind of failure, as docs/failover.md shows it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["docs"], help="print the page")

    def handle(self, *_: Any, **__: Any) -> None:
        self.stdout.write("\n".join(failure_table.lines()))
