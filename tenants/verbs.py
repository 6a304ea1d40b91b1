"""What can be done to teams, keys and the owner. Each verb writes its audit row and publishes, in one transaction.

Wrong input raises ``InvalidValue``. Secrets are returned once and kept nowhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from core import audit, publish
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from core.invalid import InvalidValue
from tenants import keys
from tenants.compile import compile_key
from tenants.models import ApiKey, Membership, Profile, Team

OWNER = "admin"
POLICIES = (
    "expires_at", "expose_thinking", "drop_hosted_tools", "structured_output", "tool_choice_outcome",
    "kilo_tool_strict", "stop_after_calls", "allowed_models", "fallback_model", "max_concurrency",
)  # fmt: skip
MOST_AT_ONCE = 100_000
_PASSWORD_BYTES = 15  # 20 characters


@transaction.atomic
def create_team(name: str, slug: str = "", *, actor: Actor = SYSTEM) -> Team:
    """A new tenant. Without ``slug`` one is made of the name."""
    team = Team(name=name.strip(), slug=slugify(slug or name))
    check_columns(team)
    team.save()
    audit.record(actor, "team.create", team, after=audit.state(team))
    publish.bump()
    return team


@transaction.atomic
def limit_team(team: Team, max_concurrency: int, *, actor: Actor = SYSTEM) -> None:
    """How many requests all keys of the team may run at once; 0: no limit."""
    _limit(team, "team.limit", max_concurrency, actor)


@transaction.atomic
def limit_member(membership: Membership, max_concurrency: int, *, actor: Actor = SYSTEM) -> None:
    """How many requests the keys that a member made for the team may run at once; 0: no limit."""
    _limit(membership, "member.limit", max_concurrency, actor)


@transaction.atomic
def delete_team(team: Team, *, actor: Actor = SYSTEM) -> None:
    """Removes a tenant with its memberships and keys. Its records stay."""
    audit.record(actor, "team.delete", team, before=audit.state(team))
    team.delete()
    publish.bump()


@transaction.atomic
def issue_key(
    team: Team,
    name: str,
    env: str = "live",
    *,
    created_by: User | None = None,
    actor: Actor = SYSTEM,
    **policies: Any,
) -> tuple[ApiKey, str]:
    """A new key and its text, which nobody can show again. ``policies``: columns of ``POLICIES``."""
    made = keys.make(env, secrets.token_bytes(keys.RANDOM_BYTES))
    row = ApiKey(
        team=team,
        name=name.strip(),
        public_id=made.public_id,
        digest=keys.digest(made.text, settings.POOLGATE_KEY_PEPPER),
        last_four=made.last_four,
        env=env,
        created_by=created_by,
    )
    _set_policies(row, policies)
    row.save()
    audit.record(actor, "key.issue", row, after=audit.state(row))
    publish.bump()
    return row, made.text


@transaction.atomic
def edit_key(row: ApiKey, *, actor: Actor = SYSTEM, **changes: Any) -> None:
    """Changes the name or ``POLICIES`` of a key that is not revoked. Nothing happens when all of it is so already."""
    locked = ApiKey.objects.select_for_update(of=["self"]).select_related("team").get(pk=row.pk)
    if locked.revoked_at is not None:
        raise InvalidValue("revoked_at", "the key is revoked.")
    before = audit.state(locked)
    locked.name = str(changes.pop("name", locked.name)).strip()
    _set_policies(locked, changes)
    after = audit.state(locked)
    if after != before:
        locked.save()
        audit.record(actor, "key.edit", locked, before=before, after=after)
        publish.bump()
    row.refresh_from_db()


@transaction.atomic
def revoke_key(row: ApiKey, *, actor: Actor = SYSTEM) -> None:
    """Ends a key for good. A revoked one keeps the time of its first revocation."""
    locked = ApiKey.objects.select_for_update().get(pk=row.pk)
    if locked.revoked_at is not None:
        return
    before = audit.state(locked)
    locked.revoked_at = timezone.now()
    locked.save(update_fields=["revoked_at"])
    row.revoked_at = locked.revoked_at
    audit.record(actor, "key.revoke", locked, before=before, after=audit.state(locked))
    publish.bump()


@transaction.atomic
def create_owner(password: str | None = None, *, actor: Actor = SYSTEM) -> str:
    """The first user, a superuser named ``admin``. Returns the one-time password. There is only one owner."""
    if User.objects.filter(username=OWNER).exists():
        raise ValueError("The owner exists already; `manage.py owner --reset` makes a new one-time password.")
    return _hand_over(User(username=OWNER, is_staff=True, is_superuser=True), password, "owner.create", actor)


@transaction.atomic
def reset_owner(password: str | None = None, *, actor: Actor = SYSTEM) -> str:
    """A new one-time password for the owner, who is made when missing. Ends all sessions of the old one."""
    owner = User.objects.select_for_update().filter(username=OWNER).first() or User(username=OWNER)
    owner.is_active = owner.is_staff = owner.is_superuser = True
    return _hand_over(owner, password, "owner.reset", actor)


@transaction.atomic
def change_password(user: User, password: str, *, actor: Actor) -> None:
    """A password that the user chose, already validated: the one-time one is used up."""
    user.set_password(password)
    user.save(update_fields=["password"])
    Profile.objects.update_or_create(user=user, defaults={"must_change_password": False})
    audit.record(actor, "user.change_password", user)


def _limit(row: Team | Membership, verb: str, most: int, actor: Actor) -> None:
    if not 0 <= most <= MOST_AT_ONCE:
        raise InvalidValue("max_concurrency", f"must be from 0 (no limit) to {MOST_AT_ONCE}.")
    locked = type(row)._default_manager.select_for_update().get(pk=row.pk)
    before = audit.state(locked)
    if locked.max_concurrency != most:
        locked.max_concurrency = most
        locked.save(update_fields=["max_concurrency"])
        audit.record(actor, verb, locked, before=before, after=audit.state(locked))
        publish.bump()
    row.max_concurrency = most


def _set_policies(row: ApiKey, policies: Mapping[str, Any]) -> None:
    unknown = set(policies) - set(POLICIES)
    if unknown:
        raise TypeError(f"a key has no policy {', '.join(sorted(unknown))}")
    expires_at = policies.get("expires_at")
    if expires_at is not None and expires_at != row.expires_at and expires_at <= timezone.now():
        raise InvalidValue("expires_at", "must be in the future.")
    for column, value in policies.items():
        setattr(row, column, list(value) if column == "allowed_models" else value)
    compile_key(row, {})
    check_columns(row)


def _hand_over(owner: User, password: str | None, verb: str, actor: Actor) -> str:
    secret = password or secrets.token_urlsafe(_PASSWORD_BYTES)
    owner.set_password(secret)
    owner.save()
    Profile.objects.update_or_create(user=owner, defaults={"must_change_password": True})
    audit.record(actor, verb, owner)
    return secret
