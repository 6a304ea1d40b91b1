"""What ``manage.py check --deploy`` says of the panel's own settings."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register


@register(Tags.security, deploy=True)
def check_cookies(**kwargs: object) -> list[CheckMessage]:
    """Beyond loopback a session cookie must not travel in the clear."""
    public = [host for host in settings.ALLOWED_HOSTS if not _is_loopback(host)]
    if not public or (settings.SESSION_COOKIE_SECURE and settings.CSRF_COOKIE_SECURE):
        return []
    return [
        Error(
            f"The panel answers to {public[0]}, but its cookies may travel without TLS.",
            hint="Put a TLS proxy in front and set POOLGATE_HTTPS=1.",
            id="panel.E001",
        )
    ]


def _is_loopback(host: str) -> bool:
    name = host.strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
