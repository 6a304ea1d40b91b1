"""``manage.py drill``: makes the simulator fail in every way and prints the path that requests take."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.management.base import CommandError
from msgspec import to_builtins

from core import command
from core.audit import COMMAND_LINE
from panel import drill
from panel.drill import Drill, Leg, Order, Rehearsal, Unavailable


class Command(command.Command):
    help = "Make the simulator fail in a chosen way, or in all, and show which accounts a request then goes through."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("causes", nargs="*", metavar="cause", help="see --list; none: all of them")
        parser.add_argument("--list", action="store_true", help="show what can be rehearsed")
        parser.add_argument("--after", type=int, default=0, metavar="N", help="fail after N deltas (0: before any)")
        parser.add_argument("--everywhere", action="store_true", help="every account fails, not the first alone")
        parser.add_argument("--json", action="store_true", help="one JSON object a line")
        parser.add_argument("--url", default="", help="the gateway, without /v1 (the running installation's)")
        parser.add_argument("--simulator", default="", help="the simulator (the running installation's)")

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            gateway, simulator = _addresses(options["url"], options["simulator"])
            known = drill.list_causes(simulator)
            if options["list"]:
                self.stdout.write("\n".join(known))
                return
            causes = options["causes"] or known
            if unknown := sorted(set(causes) - set(known)):
                raise CommandError(f"There is no cause {', '.join(unknown)}. Causes: {', '.join(known)}.")
            # The accounts of the drill lead to the simulator, which only the server was told to trust.
            settings.POOLGATE_UPSTREAM_HOSTS = [*settings.POOLGATE_UPSTREAM_HOSTS, urlsplit(simulator).netloc]
            with Drill(gateway, simulator, COMMAND_LINE) as staff:
                for cause in causes:
                    seen = staff.run(Order(cause, options["after"], options["everywhere"]))
                    self.stdout.write(orjson.dumps(to_builtins(seen)).decode() if options["json"] else _draw(seen))
        except Unavailable as error:
            raise CommandError(str(error)) from None


def _addresses(gateway: str, simulator: str) -> Sequence[str]:
    if gateway and simulator:
        return gateway.rstrip("/"), simulator.rstrip("/")
    known = drill.addresses()
    return gateway.rstrip("/") or known[0], simulator.rstrip("/") or known[1]


def _draw(seen: Rehearsal) -> str:
    return "\n".join(_lines(seen))


def _lines(seen: Rehearsal) -> Iterator[str]:
    when = f"after {seen.order.after} deltas" if seen.order.after else "before output"
    yield f"{seen.order.cause} ({when}{', every account' if seen.order.everywhere else ''})"
    yield "  " + " → ".join([*map(_leg, seen.legs), _answer(seen)])
    for account in seen.accounts:
        if account.rests or account.state != "ready":
            yield f"  {account.account} is {account.state}" + "".join(f"; rests {rest}" for rest in account.rests)


def _leg(leg: Leg) -> str:
    if not leg.reason:
        return f"{leg.account} served"
    rest = f", rests {leg.rest:.0f} s" if leg.rest else ""
    return f"{leg.account} {leg.reason} at {leg.stage} (blames {leg.culprit}{rest})"


def _answer(seen: Rehearsal) -> str:
    end = f" {seen.code}" if seen.code else ""
    return f"caller {seen.status}{end}{', broken off' if seen.interrupted else ''} in {seen.duration_ms} ms"
