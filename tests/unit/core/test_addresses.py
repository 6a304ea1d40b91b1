from __future__ import annotations

import pytest

from core.addresses import is_public, is_within, parse_networks, read
from core.outbound import ProviderHosts, Reach, Refused, may_connect

INNER = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.9.9.9", "169.254.0.1",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.9.9",
    "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:db8::1", "2002:7f00:1::1",
    "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
]  # fmt: skip
METADATA = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"]
OUTER = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.1.1.1", "128.0.0.1",
    "172.15.1.1", "172.32.0.1", "192.167.1.1", "192.169.1.1", "198.17.1.1", "198.20.1.1", "223.255.255.255",
    "::ffff:8.8.8.8", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INNER + METADATA)
def test_an_inner_address_is_not_public(address: str) -> None:
    assert not is_public(read(address))
    assert not may_connect(address, Reach(public=True), secure=True)


@pytest.mark.parametrize("address", OUTER)
def test_a_public_address_is(address: str) -> None:
    assert is_public(read(address))
    assert may_connect(address, Reach(public=True), secure=True)
    assert not may_connect(address, Reach(public=True), secure=False)


@pytest.mark.parametrize("address", METADATA)
def test_no_network_opens_a_metadata_service(address: str) -> None:
    everything = parse_networks(["0.0.0.0/0", "::/0"])
    assert not is_within(read(address), everything)
    assert not may_connect(address, Reach(public=True, private=everything), secure=True)


def test_the_operators_networks_are_open_without_tls_too() -> None:
    reach = Reach(public=True, private=parse_networks(["10.1.0.0/16", "fd12::/16"]))
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd12::1"):
        assert may_connect(address, reach, secure=True)
        assert may_connect(address, reach, secure=False)
    for address in ("10.2.0.1", "127.0.0.1", "fd13::1"):
        assert not may_connect(address, reach, secure=True)


def test_a_named_host_may_lead_anywhere() -> None:
    hosts = ProviderHosts(["127.0.0.1:8090", "models.lan"])
    assert hosts.admit("http://127.0.0.1:8090/v1") == Reach(public=False)
    assert hosts.admit("http://models.lan:1234") == Reach(public=False)
    assert may_connect("10.0.0.1", Reach(public=False), secure=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com", "https://127.0.0.1", "https://[::1]", "https://10.0.0.1", "https://169.254.169.254",
        "http://127.0.0.1:8091", "https://u:p@api.example.com", "ftp://api.example.com", "https://", "nonsense",
        "https://[::ffff:10.0.0.1]", "https://a:b",
    ],
)  # fmt: skip
def test_a_provider_is_refused_what_leads_inside(url: str) -> None:
    with pytest.raises(Refused):
        ProviderHosts(["127.0.0.1:8090"]).admit(url)


def test_any_public_host_is_admitted_by_https() -> None:
    assert ProviderHosts([]).admit("https://api.example.com:8443/v1") == Reach(public=True)
    assert ProviderHosts([]).admit("https://8.8.8.8") == Reach(public=True)


def test_plain_http_needs_a_network_of_the_operator() -> None:
    hosts = ProviderHosts([], ["10.0.0.0/8"])
    reach = hosts.admit("http://models.lan")
    assert reach.private == parse_networks(["10.0.0.0/8"])
    assert hosts.admit("http://10.1.1.1") == reach
    with pytest.raises(Refused):
        hosts.admit("http://8.8.8.8")
