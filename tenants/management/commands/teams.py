"""``manage.py teams``: tenants and their limits."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Q

from core import command
from core.audit import COMMAND_LINE
from tenants.models import Membership, Team
from tenants.verbs import limit_member, limit_team


class Command(command.Command):
    help = "Show teams with their members, and say how many requests they may run at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="every team with its limit, keys and members")
        limit = actions.add_parser("limit", help="how many requests all keys of a team may run at once")
        limit.add_argument("team", help="name or slug")
        limit.add_argument("most", type=int, help="0: no limit")
        member = actions.add_parser("limit-member", help="the same for all keys that a member made for the team")
        member.add_argument("team", help="name or slug")
        member.add_argument("user", help="the member's user name")
        member.add_argument("most", type=int, help="0: no limit")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write("\n".join(_run(options)))
        except ValueError as error:
            raise CommandError(str(error)) from None


def _run(options: dict[str, Any]) -> Iterator[str]:
    match options["action"]:
        case "limit":
            team = _find(options["team"])
            limit_team(team, options["most"], actor=COMMAND_LINE)
            yield from _describe(team)
        case "limit-member":
            team = _find(options["team"])
            member = Membership.objects.filter(team=team, user__username=options["user"]).first()
            if member is None:
                raise CommandError(f"{options['user']} is no member of {team.name}.")
            limit_member(member, options["most"], actor=COMMAND_LINE)
            yield from _describe(team)
        case _:
            for team in Team.objects.all():
                yield from _describe(team)


def _find(name: str) -> Team:
    team = Team.objects.filter(Q(slug=name) | Q(name=name)).first()
    if team is None:
        known = ", ".join(Team.objects.values_list("name", flat=True)) or "none"
        raise CommandError(f"There is no team named {name}. Teams: {known}.")
    return team


def _describe(team: Team) -> Iterator[str]:
    keys = team.keys.filter(revoked_at=None).count()
    yield f"{team.slug}  {team.name}  {_limit(team.max_concurrency)}  {keys} keys"
    for member in team.memberships.select_related("user").order_by("user__username"):
        yield f"  {member.user.get_username()}  {member.role}  {_limit(member.max_concurrency)}"


def _limit(most: int) -> str:
    return f"{most} at once" if most else "no limit"
