from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from config.celery import app
from core import command, jobs
from core.jobs import Report
from core.redis import connection


class Command(command.Command):
    help = "Show the background jobs with what their last run did, or run one now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every job of the timetable")
        actions.add_parser("run", help="run one here and now").add_argument("name", help="as listed")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "run":
            self.stdout.write(self._run(options["name"]))
        else:
            now = timezone.now().timestamp()
            self.stdout.write("\n".join(describe(report, now) for report in jobs.reports(connection())))

    def _run(self, name: str) -> str:
        known = jobs.names()
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise CommandError(f"There is no job named {name}." + (f" Did you mean {near[0]}?" if near else ""))
        app.loader.import_default_modules()
        if not app.tasks[name]():
            return f"{name} is running already."
        report = next(report for report in jobs.reports(connection()) if report.name == name)
        return describe(report, timezone.now().timestamp())


def describe(report: Report, now: float) -> str:
    """One line: name, how it stands, when it ran last and for how long, what it did."""
    said = [report.name, f"every {report.every:g} s", report.state]
    if report.is_overdue(now):
        said.append("OVERDUE")
    if report.started:
        said.append(f"{datetime.fromtimestamp(report.started, UTC):%Y-%m-%d %H:%M:%S}")
    if report.took is not None:
        said.append(f"took {report.took:.2f} s")
    if report.error:
        said.append(f"{report.error}, {report.failures} in a row")
    said += [f"{name} {number}" for name, number in report.counts.items()]
    return "  ".join(said)
