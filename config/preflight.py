"""The checks of ``manage.py preflight``. Each returns what is wrong and how to fix it; nothing is changed."""

from __future__ import annotations

import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from accounts.compile import AccountState
from accounts.models import Account, Credential
from config import demo, environment
from config.environment import Problem
from core.encryption import SealError, open_sealed
from tenants.models import ApiKey, Team
from tenants.verbs import OWNER

_START = "Start the engines with `manage.py up`, or set {} to one that runs."


def problems() -> list[Problem]:
    """Everything that is missing, most basic first."""
    found = environment.secret_problems({name: environment.find(name) for name in environment.SECRETS})
    if not any(environment.find(name) for name in environment.SECRETS):
        found = [
            Problem("No secrets are set.", "Run `manage.py up` once to make them, or set them in the environment.")
        ]
    found += _redis() + _database()
    if not found:
        found = _accounts() + _keys() + _owner() + _demo()
    return found


def _redis() -> list[Problem]:
    if not settings.REDIS_URL:
        return [Problem("There is no Redis or Valkey.", _START.format("REDIS_URL"))]
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=5) as client:
            policy = client.config_get("maxmemory-policy").get("maxmemory-policy")
    except redis.AuthenticationError:
        return [Problem("Redis refuses our password.", "Correct the password in REDIS_URL.")]
    except redis.ResponseError:
        return []  # it answers, but does not show its configuration
    except redis.RedisError:
        return [Problem("Redis does not answer.", _START.format("REDIS_URL"))]
    if policy != "noeviction":
        return [Problem(f"Redis may drop our data (maxmemory-policy is {policy}).", "Set it to noeviction.")]
    return []


def _database() -> list[Problem]:
    if not settings.DATABASES.get("default", {}).get("NAME"):
        return [Problem("There is no database.", _START.format("DATABASE_URL"))]
    try:
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return [Problem("The database does not answer.", _START.format("DATABASE_URL"))]
    if waiting:
        return [Problem(f"{len(waiting)} migrations wait.", "Run `manage.py migrate`; `manage.py up` does it too.")]
    return []


def _accounts() -> list[Problem]:
    if not Account.objects.filter(enabled=True).exists():
        return [Problem("There is no account to serve requests.", "Add one: manage.py accounts add NAME --team TEAM")]
    if not Account.objects.filter(enabled=True, state=AccountState.READY).exists():
        return [
            Problem(
                "No account is ready.",
                "`manage.py accounts list` says why; `accounts key` gives one a new key, `accounts wake` lets it try.",
            )
        ]
    for credential in Credential.objects.select_related("account"):
        try:
            open_sealed(credential.sealed)
        except SealError:
            return [
                Problem(
                    f"The credential of {credential.account.name} cannot be opened.",
                    "Add the key it was sealed with to POOLGATE_ENCRYPTION_KEYS, or enter the credential again.",
                )
            ]
    return []


def _keys() -> list[Problem]:
    keys = ApiKey.objects.filter(revoked_at=None)
    if not keys.exists():
        return [Problem("There is no API key.", "Make one: manage.py issue_key --team NAME --name NAME --create-team")]
    idle = Team.objects.filter(keys__in=keys).exclude(account_groups__accounts__enabled=True).distinct()
    return [
        Problem(
            f"Team {team.name} has keys, but no accounts that it may use.",
            f"Let it use a group of them: manage.py accounts allow GROUP {team.slug}",
        )
        for team in idle
    ]


def _owner() -> list[Problem]:
    if User.objects.filter(username=OWNER, is_active=True).exists():
        return []
    return [Problem("There is no owner to sign in.", "Run `manage.py owner --reset`.")]


def _demo() -> list[Problem]:
    if not (settings.DATA_DIR / demo.FILE).exists():
        return []
    return [Problem("The demo's accounts and key are in here.", "Before going live run `manage.py demo --remove`.")]
