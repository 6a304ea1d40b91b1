"""Which addresses are public, and which are somebody's inside. Pure.

Written out instead of ``ipaddress.is_global``, whose answer differs between releases of Python. Of IPv6 only global
unicast is public at all, and of that not what leads back into IPv4 (6to4, Teredo) or nowhere. Sources: the IANA
registries of special-purpose addresses (RFC 6890); the metadata services of cloud vendors.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SPECIAL = tuple(
    ipaddress.ip_network(block)
    for block in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
    )
)  # fmt: skip
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

METADATA = tuple(
    ipaddress.ip_address(address)
    for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
                    "fd00:ec2::254")
)  # fmt: skip
"""They hand out a machine's own credentials: no allow-list opens them."""


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Raises ``ValueError`` for what is no network in CIDR form."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def read(text: str) -> Address:
    """An address as a resolver gives it; one of IPv4 in IPv6's clothes is undressed. Raises ``ValueError``."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_public(address: Address) -> bool:
    if address in METADATA or any(address in block for block in SPECIAL if block.version == address.version):
        return False
    return address.version == 4 or address in GLOBAL_UNICAST


def is_within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether an operator's networks hold it. Never true for a metadata service."""
    if address in METADATA:
        return False
    return any(address in network for network in networks if network.version == address.version)
