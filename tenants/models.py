"""Who may call: teams, their members and their API keys."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models

from tenants.compile import StructuredOutput, ToolChoiceOutcome


class Team(models.Model):
    """The tenant. ``slug`` is what URLs and metric labels show; ``store_responses``: callers may keep conversations;
    ``max_concurrency``: requests at once, 0: no limit."""

    AUDITED: ClassVar[tuple[str, ...]] = ("name", "slug", "store_responses", "max_concurrency")

    name = models.CharField(max_length=64, unique=True)
    slug = models.SlugField(max_length=64, unique=True)
    store_responses = models.BooleanField(default=True)
    max_concurrency = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Membership(models.Model):
    """A user's role in one team, and how many requests all their keys there may run at once (0: no limit)."""

    AUDITED: ClassVar[tuple[str, ...]] = ("user_id", "team_id", "role", "max_concurrency")

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role.choices, default=Role.MEMBER)
    max_concurrency = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership_per_team")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id} as {self.role}"


class Profile(models.Model):
    """What a user has beside Django's own fields. ``must_change_password``: we made the password, for one use."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="profile")
    must_change_password = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"profile of {self.user_id}"


class ApiKey(models.Model):
    """A key as we keep it: enough to recognise it, nothing to rebuild it. ``KeyView`` says what its policies mean."""

    class Env(models.TextChoices):
        LIVE = "live"
        DEMO = "demo"

    AUDITED: ClassVar[tuple[str, ...]] = (
        "team_id", "name", "public_id", "last_four", "env", "expires_at", "revoked_at", "expose_thinking",
        "drop_hosted_tools", "structured_output", "kilo_tool_strict", "stop_after_calls", "tool_choice_outcome",
        "allowed_models", "fallback_model", "max_concurrency",
    )  # fmt: skip

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=64)
    public_id = models.CharField(max_length=8, unique=True)
    digest = models.BinaryField(max_length=32)
    last_four = models.CharField(max_length=4)
    env = models.CharField(max_length=4, choices=Env.choices, default=Env.LIVE)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    expose_thinking = models.BooleanField(null=True, blank=True, default=None)
    drop_hosted_tools = models.BooleanField(default=True)
    structured_output = models.CharField(
        max_length=8,
        choices=[(way.value, way.value) for way in StructuredOutput],
        default=StructuredOutput.REFUSE.value,
    )
    kilo_tool_strict = models.BooleanField(default=False)
    stop_after_calls = models.BooleanField(null=True, blank=True, default=None)
    tool_choice_outcome = models.CharField(
        max_length=8,
        choices=[(way.value, way.value) for way in ToolChoiceOutcome],
        default=ToolChoiceOutcome.STRICT.value,
    )
    allowed_models = models.JSONField(default=list, blank=True)
    fallback_model = models.CharField(max_length=160, blank=True)
    max_concurrency = models.PositiveIntegerField(default=0)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["team__name", "name", "id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id}…{self.last_four})"

    def state(self, now: datetime) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"
