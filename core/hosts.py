"""Cursor's own hosts. Pure."""

from __future__ import annotations

OFFICIAL_HOSTS = frozenset(
    {
        "api.cursor.com",
        "api2.cursor.sh",
        "cursor.com",
        "agent.api5.cursor.sh",
        "agentn.api5.cursor.sh",
        "agentn.global.api5.cursor.sh",
    }
)
"""The ones that may be called without being named by the operator."""

_DOMAINS = ("cursor.com", "cursor.sh")


def is_cursor_host(host: str) -> bool:
    """Whether a host name is Cursor's: one of its domains, or anything below them."""
    host = host.rstrip(".").lower()
    return any(host == domain or host.endswith(f".{domain}") for domain in _DOMAINS)
