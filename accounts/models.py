"""Where requests go: the operator's accounts, their groups and credentials, and the models they offer."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from accounts.channels import CUSTOM, DEFAULT_IDLE
from accounts.compile import AccountKind, AccountState, Transport, usual_thinking
from accounts.kinds import BINDINGS
from core.encryption import SealedField
from tenants.models import Team


class Group(models.Model):
    """A set of accounts that teams are allowed to use. ``teams`` are the ones that an admin allowed it."""

    AUDITED: ClassVar[tuple[str, ...]] = ("name", "slug")

    name = models.CharField(max_length=64, unique=True)
    slug = models.SlugField(max_length=64, unique=True)
    teams = models.ManyToManyField(Team, related_name="account_groups", blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Proxy(models.Model):
    """A way out for accounts. ``url`` holds no user name; ``sealed`` is the password of ``user``."""

    AUDITED: ClassVar[tuple[str, ...]] = ("name", "url", "user", "enabled", "notes")

    name = models.CharField(max_length=64, unique=True)
    url = models.CharField(max_length=200)
    user = models.CharField(max_length=255, blank=True)
    sealed = SealedField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "proxies"

    def __str__(self) -> str:
        return self.name


class Account(models.Model):
    """An upstream account. ``priority``: the lowest number is asked first; ``slots``: requests at once.

    ``state`` is what the gateway found out, ``enabled`` what the admin wants; both must allow it. ``state_at`` is when
    it was set last: what happened before cannot change it any more. ``draining``: it goes on with the conversations
    that are bound to it, and gets no new ones.
    """

    AUDITED: ClassVar[tuple[str, ...]] = (
        "name", "kind", "transport", "base_url", "priority", "slots", "state", "state_reason", "enabled", "draining",
        "allowed_models", "client_type", "client_version", "proxy_id", "notes",
    )  # fmt: skip

    name = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in AccountKind])
    transport = models.CharField(max_length=32, choices=[(way.value, way.value) for way in Transport])
    base_url = models.CharField(max_length=200)
    groups = models.ManyToManyField(Group, related_name="accounts", blank=True)
    priority = models.PositiveIntegerField(default=100)
    slots = models.PositiveIntegerField(default=3)
    state = models.CharField(
        max_length=16, choices=[(state.value, state.value) for state in AccountState], default=AccountState.READY.value
    )
    state_reason = models.CharField(max_length=64, blank=True)
    state_at = models.DateTimeField(default=timezone.now)
    enabled = models.BooleanField(default=True)
    draining = models.BooleanField(default=False)
    allowed_models = models.JSONField(default=list, blank=True)
    client_type = models.CharField(max_length=32, blank=True)
    client_version = models.CharField(max_length=32, blank=True)
    proxy = models.ForeignKey(Proxy, on_delete=models.PROTECT, related_name="accounts", null=True, blank=True)
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["priority", "name"]

    def __str__(self) -> str:
        return self.name


class Credential(models.Model):
    """What an account signs in with, sealed by ``core.encryption`` (the sealed bytes name their key).

    A replacement is a new row, so whatever was cached under the old id is never used again. A login that was refreshed
    stays the same row in a new ``version``: see ``accounts.logins``.
    """

    class Kind(models.TextChoices):
        API_KEY = "api_key"
        LOGIN_TOKEN = "login_token"  # noqa: S105 (a kind, not a secret)

    AUDITED: ClassVar[tuple[str, ...]] = ("account_id", "kind", "last_four", "expires_at", "version")

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="credential")
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.API_KEY)
    sealed = SealedField()
    last_four = models.CharField(max_length=4)
    expires_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.kind} …{self.last_four}"


class Channel(models.Model):
    """What a provider account has beyond other accounts: see ``accounts.channels.ChannelView``.

    ``endpoint`` "custom" leaves the version out of the address. ``channel_id`` changes with what it is made of.
    """

    AUDITED: ClassVar[tuple[str, ...]] = (
        "account_id", "channel_id", "endpoint", "names", "effort", "dialect", "extra_params", "headers",
        "context_tokens", "max_output_tokens", "thinking_budget", "idle_timeout",
    )  # fmt: skip

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="channel")
    channel_id = models.CharField(max_length=16, unique=True)
    endpoint = models.CharField(max_length=16, blank=True, choices=[(CUSTOM, CUSTOM)])
    names = models.JSONField()
    effort = models.CharField(max_length=16, blank=True)
    dialect = models.CharField(max_length=16, blank=True)
    extra_params = models.JSONField(default=dict, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    context_tokens = models.PositiveIntegerField(default=200_000)
    max_output_tokens = models.PositiveIntegerField(default=65_536)
    thinking_budget = models.PositiveIntegerField(default=4096)
    idle_timeout = models.IntegerField(default=DEFAULT_IDLE)

    def __str__(self) -> str:
        return self.channel_id


class Cooldown(models.Model):
    """A rest that Redis holds too; this row is what survives Redis. ``model`` "" means the whole account."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="cooldowns")
    model = models.CharField(max_length=128, blank=True)
    until = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=32)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "model"], name="one_cooldown_per_account_model")]

    def __str__(self) -> str:
        return f"{self.account_id} {self.model or '*'} {self.reason}"


class CatalogueModel(models.Model):
    """A name that callers may use. With ``alias_of`` it only leads to another name and the columns that describe a
    model mean nothing; without, see ``accounts.compile.ModelView`` for what they mean.

    ``source`` is where it came from; ``overrides`` are the columns that an admin set, which the upstream's list never
    changes; ``missing_since``: when no account's upstream offered it any more.
    """

    class Source(models.TextChoices):
        ADMIN = "admin"
        SEED = "seed"
        UPSTREAM = "upstream"

    AUDITED: ClassVar[tuple[str, ...]] = (
        "name", "alias_of", "upstream", "upstream_id", "owner", "display_name", "context_tokens", "max_output_tokens",
        "parameters", "thinking_parameters", "max_mode", "enabled", "source", "overrides", "missing_since",
    )  # fmt: skip

    name = models.CharField(max_length=128, unique=True)
    alias_of = models.CharField(max_length=128, blank=True)
    upstream = models.CharField(max_length=32, blank=True, choices=[(name, name) for name in BINDINGS])
    upstream_id = models.CharField(max_length=128, blank=True)
    owner = models.CharField(max_length=64, default="poolgate")
    display_name = models.CharField(max_length=128, blank=True)
    context_tokens = models.PositiveIntegerField(default=200_000)
    max_output_tokens = models.PositiveIntegerField(default=64_000)
    parameters = models.JSONField(default=dict, blank=True)
    thinking_parameters = models.JSONField(default=usual_thinking, blank=True)
    max_mode = models.BooleanField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    source = models.CharField(max_length=16, choices=Source.choices, default=Source.ADMIN)
    overrides = models.JSONField(default=list, blank=True)
    missing_since = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PlanUsage(models.Model):
    """How much of its plan an account has used, for pages: see ``accounts.knowledge.Quota``."""

    account = models.OneToOneField(Account, on_delete=models.CASCADE, related_name="plan_usage")
    auto = models.FloatField(null=True)
    api = models.FloatField(null=True)
    spent_cents = models.IntegerField(null=True)
    limit_cents = models.IntegerField(null=True)
    ends_at = models.DateTimeField(null=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.account_id} at {self.at}"
