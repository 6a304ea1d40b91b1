"""The demo: simulated accounts of every kind, a team and a key, made and removed by the same verbs as real ones.

``demo.json`` in the data dir (mode 0600) holds what the card shows, so that a second start shows the same. ``remove``
takes all of it away, and the owner's password with it, since that file knew it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from accounts import catalogue, credentials, effects, groups
from accounts import verbs as accounts
from accounts.compile import AccountState, Transport
from accounts.models import Account, CatalogueModel, Credential, Group
from config.environment import read_json, write_json
from core import redis
from ops.models import RequestRecord
from tenants import verbs as tenants
from tenants.models import ApiKey, Profile, Team

FILE = "demo.json"
TEAM = GROUP = "demo"
ACCOUNTS = ("alpha", "beta", "gamma")  # the simulator's own, unless it is given a seed
PROVIDERS = {
    "openai": (Transport.OPENAI_CHAT, {"openai-sim": "gpt-5.2"}),
    "responses": (Transport.OPENAI_RESPONSES, {"responses-sim": "gpt-5.2"}),
    "anthropic": (Transport.ANTHROPIC_MESSAGES, {"anthropic-sim": "claude-sonnet-4.6"}),
}
"""Simulated accounts at providers: how each is asked, and its models under their public names."""

SCRIPTS = "sim-*"
OTHERS = {"cloud": ("cloud-*", Transport.CLOUD_AGENTS), "text": ("text-*", Transport.TEXT_CHAT)}
"""Accounts that are asked in another way: each serves the names of its pattern, and nobody else does."""
ALIASES = {"claude-*": "claude-sonnet-4.6", "gpt-*": "gpt-5.2", "gemini-*": "gemini-2.5-flash"}
"""Coding clients ask for models that nobody configured; in the demo every vendor's names lead somewhere."""


@transaction.atomic
def install(directory: Path, simulator_url: str, owner_password: str | None) -> dict[str, Any]:
    """Makes what is missing of the demo and returns ``demo.json``'s content.

    ``owner_password`` is the owner's, when it was made just now. ``simulator_url`` may differ from the last time.
    """
    kept = read_json(directory / FILE)
    team = Team.objects.filter(slug=TEAM).first() or tenants.create_team("Demo", TEAM)
    group = Group.objects.filter(slug=GROUP).first() or groups.create_group("Demo", teams=[team])
    _make_accounts(group, simulator_url)
    _wake_accounts(group)
    _make_names()
    kept["api_key"] = _working_key(team, kept.get("api_key"))
    if owner_password is not None:
        kept["admin_password"] = owner_password
        # The card shows the password at every start, so it is no one-time password.
        Profile.objects.filter(user__username=tenants.OWNER).update(must_change_password=False)
        kept["admin_hash"] = _owner_hash()
    elif kept.get("admin_hash") != _owner_hash():
        kept.pop("admin_password", None)  # changed since: no longer ours to show
    kept["simulator_url"] = simulator_url
    write_json(directory / FILE, kept)
    return kept


@transaction.atomic
def remove(directory: Path) -> str | None:
    """Deletes every trace of the demo. Returns the owner's new one-time password when the demo knew the old one."""
    kept = read_json(directory / FILE)
    for team in Team.objects.filter(slug=TEAM):
        RequestRecord.objects.filter(team_id=team.pk).delete()
        tenants.delete_team(team)
    names = [_account_name(name) for name in (*ACCOUNTS, *PROVIDERS, *OTHERS)]
    for account in Account.objects.filter(name__in=names):
        accounts.delete_account(account)
    for group in Group.objects.filter(slug=GROUP):
        groups.delete_group(group)
    offered = [model for _, models in PROVIDERS.values() for model in models]
    offered += [pattern for pattern, _ in OTHERS.values()]
    for model in CatalogueModel.objects.filter(name__in=[SCRIPTS, *ALIASES, *offered]):
        if model.alias_of == ALIASES.get(model.name, ""):
            catalogue.delete_model(model)
    password = tenants.reset_owner() if kept.get("admin_hash") == _owner_hash() and kept else None
    (directory / FILE).unlink(missing_ok=True)
    return password


def _wake_accounts(group: Group) -> None:
    """Each start begins with a pool that serves, whatever the scripts have done to it. The simulator that starts now
    knows no token of the last one, and a token that is refused soon after it was fetched counts against its account.
    """
    effects.apply_effects(redis.connection(), claim_after=0)  # what was found out just before the last stop
    for account in group.accounts.all():
        if account.state != AccountState.READY or account.cooldowns.exists():
            accounts.set_state(account, AccountState.READY)
            accounts.clear_cooldowns(account)
    ids = Credential.objects.filter(account__groups=group).values_list("pk", flat=True)
    credentials.forget(redis.connection(), ids)


def _make_accounts(group: Group, simulator_url: str) -> None:
    for name in ACCOUNTS:
        if _is_missing(name, simulator_url):
            accounts.create_cursor_account(_account_name(name), _key_of(name), simulator_url, [group])
    for name, (transport, models) in PROVIDERS.items():
        if _is_missing(name, simulator_url):
            key = f"sk-sim-{name}"
            accounts.create_provider_account(_account_name(name), key, simulator_url, transport, models, [group])
    for name, (pattern, transport) in OTHERS.items():
        if _is_missing(name, simulator_url):
            _create_other(name, pattern, transport, simulator_url, group)


def _make_names() -> None:
    if not CatalogueModel.objects.filter(name=SCRIPTS).exists():
        catalogue.define_model(SCRIPTS, owner="simulator", display_name="Simulator scripts")
    for pattern, transport in OTHERS.values():
        if not CatalogueModel.objects.filter(name=pattern).exists():
            catalogue.define_model(pattern, owner="simulator", display_name=f"By {transport}", upstream=transport.value)
    for name, target in ALIASES.items():
        known = CatalogueModel.objects.filter(name__in=[name, target]).values_list("name", flat=True)
        if list(known) == [target]:
            catalogue.define_alias(name, target)


def _is_missing(name: str, simulator_url: str) -> bool:
    """Whether the account has to be made: there is none, or only one that leads to where the simulator was."""
    account = Account.objects.filter(name=_account_name(name)).first()
    if account is not None and account.base_url != simulator_url:
        accounts.delete_account(account)
        return True
    return account is None


def _create_other(name: str, pattern: str, transport: Transport, url: str, group: Group) -> None:
    name, key = _account_name(name), _key_of(name)
    if transport is Transport.TEXT_CHAT:
        accounts.create_text_account(name, key, url, [group], allowed_models=[pattern])
    else:
        accounts.create_cursor_account(name, key, url, [group], transport=transport, allowed_models=[pattern])


def _working_key(team: Team, text: str | None) -> str:
    """The demo's key, made again when it was revoked or when nobody knows its text any more."""
    if text and ApiKey.objects.filter(team=team, public_id=text.split("_")[2], revoked_at=None).exists():
        return text
    return tenants.issue_key(team, "demo", "demo")[1]


def _owner_hash() -> str:
    return User.objects.filter(username=tenants.OWNER).values_list("password", flat=True).first() or ""


def _account_name(name: str) -> str:
    return f"sim-{name}"


def _key_of(name: str) -> str:
    return f"crsr_sim_{name}"
