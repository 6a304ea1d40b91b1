"""When background jobs run: task → seconds between two runs. One that missed its turn is dropped at the next."""

from __future__ import annotations

from collections.abc import Mapping

TIMETABLE: Mapping[str, float] = {
    "ops.tasks.drain_records": 1,
    "ops.tasks.reap_lost": 10,
    "ops.tasks.sweep_traces": 600,
    "accounts.tasks.apply_effects": 1,
    "accounts.tasks.restore_cooldowns": 15,
    "accounts.tasks.reverify_cooldowns": 60,
    "accounts.tasks.refresh_catalogue": 300,
    "accounts.tasks.renew_credentials": 60,
    "accounts.tasks.check_proxies": 60,
    "accounts.tasks.refresh_quotas": 600,
    "accounts.tasks.sweep_knowledge": 3600,
    "gateway.tasks.sweep_conversations": 600,
    "gateway.tasks.sweep_cloud_agents": 60,
}
