"""What can be done to accounts. Each verb writes its audit row and publishes, in one transaction, and checks a row by
compiling it. Wrong input raises ``InvalidValue``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts import blocks, channels, cooldowns
from accounts.catalogue import define_model
from accounts.compile import AccountKind, AccountState, Transport, compile_account, way_out_of
from accounts.credentials import open_key
from accounts.keys import add_credential
from accounts.models import Account, CatalogueModel, Channel, Cooldown, Credential, Group, Proxy
from accounts.troubles import clear_egress
from core import audit, outbound, publish, redis
from core.audit import SYSTEM, Actor
from core.columns import check_columns
from core.invalid import InvalidValue
from ir.errors import Fault

EDITABLE = ("name", "base_url", "priority", "slots", "proxy", "notes")
CHANNEL_COLUMNS = (
    "endpoint", "effort", "dialect", "extra_params", "headers", "context_tokens", "max_output_tokens",
    "thinking_budget", "idle_timeout",
)  # fmt: skip
"""What ``update_provider_account`` may change of an account and of its channel."""

CURSOR_URL = "https://api2.cursor.sh"


@transaction.atomic
def create_cursor_account(
    name: str,
    api_key: str,
    base_url: str = CURSOR_URL,
    groups: Iterable[Group] = (),
    *,
    transport: Transport = Transport.AGENT_RPC,
    priority: int = 100,
    slots: int = 3,
    allowed_models: Sequence[str] = (),
    client_type: str = "",
    client_version: str = "",
    proxy: Proxy | None = None,
    notes: str = "",
    credential: str = Credential.Kind.API_KEY,
    actor: Actor = SYSTEM,
) -> Account:
    """A Cursor account. ``credential``: what ``api_key`` is, an API key or a browser login (``accounts.logins.parse``);
    ``allowed_models``: upstream ids or patterns; none means all."""
    row = Account(
        name=name.strip(),
        kind=AccountKind.CURSOR.value,
        transport=transport.value,
        base_url=base_url.rstrip("/"),
        priority=priority,
        slots=slots,
        allowed_models=list(allowed_models),
        client_type=client_type,
        client_version=client_version,
        proxy=proxy,
        notes=notes,
    )
    return _create(row, api_key, groups, actor, credential)


@transaction.atomic
def create_text_account(
    name: str,
    api_key: str,
    base_url: str,
    groups: Iterable[Group] = (),
    *,
    allowed_models: Sequence[str],
    priority: int = 100,
    slots: int = 3,
    proxy: Proxy | None = None,
    notes: str = "",
    actor: Actor = SYSTEM,
) -> Account:
    """A text model server of the operator's own. ``api_key``: any word where the server asks for none;
    ``allowed_models``: what it serves, since it cannot be asked."""
    if not allowed_models:
        raise InvalidValue("allowed_models", "name the models that the server has.")
    row = Account(
        name=name.strip(),
        kind=AccountKind.TEXT_CHAT.value,
        transport=Transport.TEXT_CHAT.value,
        base_url=base_url.rstrip("/"),
        priority=priority,
        slots=slots,
        allowed_models=list(allowed_models),
        proxy=proxy,
        notes=notes,
    )
    return _create(row, api_key, groups, actor)


@transaction.atomic
def set_transport(account: Account, transport: Transport, *, actor: Actor = SYSTEM) -> None:
    """How the account is spoken to from now on. Running requests go on."""
    row = _lock(account)
    if row.transport != transport.value:
        _change(row, "account.set_transport", actor, transport=transport.value)
        compile_account(row)
    account.transport = row.transport


@transaction.atomic
def create_provider_account(
    name: str,
    api_key: str,
    base_url: str,
    transport: Transport,
    models: Mapping[str, str] | Sequence[str],
    groups: Iterable[Group] = (),
    *,
    priority: int = 100,
    slots: int = 3,
    proxy: Proxy | None = None,
    notes: str = "",
    actor: Actor = SYSTEM,
    **channel: Any,
) -> Account:
    """An account at an OpenAI- or Anthropic-compatible provider. ``models``: public name → the provider's id, or ids
    that are public as they are; names that the catalogue does not know are added to it. ``channel``: more columns of
    ``Channel``. A base URL that ends in an endpoint decides the transport. Raises ``TypeError`` for unknown columns.
    """
    offered = dict(models) if isinstance(models, Mapping) else {model: model for model in models}
    wire, _ = channels.endpoint(transport, base_url, custom=channel.get("endpoint") == channels.CUSTOM)
    row = Account(
        name=name.strip(),
        kind=AccountKind.PROVIDER.value,
        transport=wire.value,
        base_url=channels.normalise(base_url),
        priority=priority,
        slots=slots,
        proxy=proxy,
        notes=notes,
    )
    _check_and_save(row)
    row.groups.set(groups)
    add_credential(row, api_key, Credential.Kind.API_KEY, None)
    _save_channel(Channel(account=row, names=offered, **channel), api_key)
    view = compile_account(row).channel
    audit.record(actor, "account.create", row, after=audit.state(row) | {"channel": audit.state(row.channel)})
    _add_to_catalogue(view, actor)
    publish.bump()
    return row


@transaction.atomic
def update_provider_account(
    account: Account,
    *,
    api_key: str = "",
    transport: Transport | None = None,
    models: Mapping[str, str] | None = None,
    groups: Iterable[Group] | None = None,
    actor: Actor = SYSTEM,
    **columns: Any,
) -> None:
    """Changes what is given of a provider account, its channel and its key. Running requests go on as they began.
    ``columns``: ``EDITABLE`` ones of ``Account``, or of ``Channel``. Raises ``TypeError`` for others."""
    row = _lock(account)
    channel = Channel.objects.filter(account=row).first()
    if channel is None:
        raise InvalidValue("kind", "this is no provider account.")
    channel.account = row
    before = _provider_state(row, channel)
    if models is not None:
        channel.names = dict(models)
    for column, value in columns.items():
        if column not in (*EDITABLE, *CHANNEL_COLUMNS):
            raise TypeError(f"{column} cannot be edited")
        setattr(row if column in EDITABLE else channel, column, value)
    row.name, custom = row.name.strip(), channel.endpoint == channels.CUSTOM
    row.transport = channels.endpoint(transport or row.transport, row.base_url, custom=custom)[0].value
    row.base_url = channels.normalise(row.base_url)
    _check_and_save(row)
    if groups is not None:
        row.groups.set(groups)
    _save_channel(channel, api_key or _kept_key(row))
    view = compile_account(Account.objects.get(pk=row.pk)).channel
    after = _provider_state(row, channel)
    if before != after:
        audit.record(actor, "account.update", row, before=before, after=after)
        _add_to_catalogue(view, actor)
        publish.bump()
    if api_key:
        replace_credential(row, api_key, actor=actor)
    account.refresh_from_db()


@transaction.atomic
def set_state(
    account: Account, state: AccountState, reason: str = "", *, at: datetime | None = None, actor: Actor = SYSTEM
) -> None:
    """What the gateway or an admin found out, ``at`` some time (None: now). Nothing happens when it is so already."""
    row = _lock(account)
    if (row.state, row.state_reason) != (state.value, reason):
        if AccountState.BLOCKED in (row.state, state):
            transaction.on_commit(lambda: blocks.enforce(redis.connection()), robust=True)
        if state is AccountState.READY:
            _wake(row)
        _change(row, "account.set_state", actor, state=state.value, state_reason=reason, state_at=at or timezone.now())
    account.state, account.state_reason = row.state, row.state_reason


@transaction.atomic
def set_enabled(account: Account, enabled: bool, *, actor: Actor = SYSTEM) -> None:
    """The admin's switch. Running requests go on."""
    row = _lock(account)
    if row.enabled != enabled:
        _change(row, "account.enable" if enabled else "account.disable", actor, enabled=enabled)
    account.enabled = row.enabled


@transaction.atomic
def set_draining(account: Account, draining: bool, *, actor: Actor = SYSTEM) -> None:
    """Whether it gets no new conversations any more. Those that are bound to it go on there."""
    row = _lock(account)
    if row.draining != draining:
        _change(row, "account.drain" if draining else "account.fill", actor, draining=draining)
    account.draining = row.draining


@transaction.atomic
def replace_credential(
    account: Account,
    secret: str,
    kind: str = Credential.Kind.API_KEY,
    expires_at: datetime | None = None,
    *,
    actor: Actor = SYSTEM,
) -> Credential:
    """A new credential in place of the old one. An account that rested for want of one is ready again."""
    row = _lock(account)
    old = Credential.objects.filter(account=row).first()
    before = audit.state(old) if old else None
    if old is not None:
        old.delete()
    new = add_credential(row, secret, kind, expires_at)
    if row.kind == AccountKind.PROVIDER:
        _save_channel(row.channel, secret)
    audit.record(actor, "account.replace_credential", new, before=before, after=audit.state(new))
    if row.state == AccountState.NEEDS_SIGN_IN:
        _wake(row)
        ready = {"state": AccountState.READY.value, "state_reason": "", "state_at": timezone.now()}
        _change(row, "account.set_state", actor, **ready)
    compile_account(Account.objects.get(pk=row.pk))
    publish.bump()
    account.refresh_from_db()
    return new


@transaction.atomic
def clear_cooldowns(account: Account, model: str | None = None, *, actor: Actor = SYSTEM) -> None:
    """Ends the rest of one upstream model ("": the account's own), or with None every rest of the account, that of its
    way out included.

    Redis first: selection sees it at once, and an effect that is still on its way finds nothing left to write down.
    Published, because processes remember for some seconds what they heard of rests.
    Raises ``RedisError``, and then nothing has changed.
    """
    row = _lock(account)
    rows = Cooldown.objects.filter(account=row)
    before: dict[str, Any] = {}
    if model is not None:
        rows = rows.filter(model=model)
    elif clear_egress(redis.connection(), way_out := way_out_of(row.proxy_id)):
        before["way_out"] = way_out
    cooldowns.clear(redis.connection(), account.pk, model)
    before["cooldowns"] = [{"model": row.model, "reason": row.reason, "until": row.until.isoformat()} for row in rows]
    rows.delete()
    audit.record(actor, "account.clear_cooldowns", account, before=before, after={"cooldowns": []})
    publish.bump()


@transaction.atomic
def delete_account(account: Account, *, actor: Actor = SYSTEM) -> None:
    """Removes an account with its credential. Its records stay."""
    audit.record(actor, "account.delete", account, before=audit.state(account))
    account.delete()
    publish.bump()


def _create(
    row: Account, api_key: str, groups: Iterable[Group], actor: Actor, kind: str = Credential.Kind.API_KEY
) -> Account:
    _check_and_save(row)
    row.groups.set(groups)
    add_credential(row, api_key, kind, None)
    compile_account(row)
    audit.record(actor, "account.create", row, after=audit.state(row))
    publish.bump()
    return row


def _check_and_save(row: Account) -> None:
    check_columns(row)
    provider = row.kind == AccountKind.PROVIDER
    try:
        (outbound.provider_hosts() if provider else outbound.allow_list()).admit(row.base_url)
    except outbound.Refused as error:
        raise InvalidValue("base_url", str(error)) from None
    row.save()


def _save_channel(row: Channel, api_key: str) -> None:
    """Saves it under the id that follows from its content. Raises ``InvalidValue`` when there is one like it."""
    account, upstream_ids = row.account, list(channels.check_models(row.names).values())
    row.channel_id = channels.channel_id(account.base_url, upstream_ids, api_key, account.name, row.endpoint)
    if Channel.objects.filter(channel_id=row.channel_id).exclude(pk=row.pk).exists():
        raise InvalidValue("name", "there is a channel of this address, models, key and name.")
    channels.compile_channel(row, account.transport, account.base_url)
    check_columns(row)
    row.save()


def _add_to_catalogue(view: channels.ChannelView | None, actor: Actor) -> None:
    """Names of the channel that callers could not use yet."""
    if view is None:
        return
    for model in view.models:
        if not CatalogueModel.objects.filter(name=model).exists():
            define_model(
                model,
                upstream=AccountKind.PROVIDER.value,
                owner="provider",
                context_tokens=view.context_tokens,
                max_output_tokens=view.max_output_tokens,
                actor=actor,
            )


def _kept_key(row: Account) -> str:
    """The key that the account has, which its channel's id is made of."""
    credential = Credential.objects.filter(account=row).first()
    try:
        return open_key(bytes(credential.sealed)) if credential is not None else ""
    except Fault:
        raise InvalidValue("api_key", "the kept key cannot be opened; give it again.") from None


def _provider_state(row: Account, channel: Channel) -> dict[str, Any]:
    groups = sorted(row.groups.values_list("slug", flat=True))
    return audit.state(row) | {"channel": audit.state(channel), "groups": groups}


def _change(row: Account, verb: str, actor: Actor, **columns: Any) -> None:
    before = audit.state(row)
    for column, value in columns.items():
        setattr(row, column, value)
    row.save(update_fields=list(columns))
    audit.record(actor, verb, row, before=before, after=audit.state(row))
    publish.bump()


def _wake(row: Account) -> None:
    """Ends the rest of the whole account: what put it out of use also put it to rest. Before the change is published,
    which is when processes forget what they heard of rests."""
    row.cooldowns.filter(model="").delete()
    transaction.on_commit(lambda: cooldowns.clear(redis.connection(), row.pk, ""), robust=True)


def _lock(account: Account) -> Account:
    return Account.objects.select_for_update().get(pk=account.pk)
