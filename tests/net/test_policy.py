"""Which addresses a webhook may go to."""

from __future__ import annotations

import pytest

from supervisor.net import AddressPolicy

ALWAYS_REFUSED = {
    "169.254.169.254": "cloud metadata",
    "169.254.1.1": "link-local",
    "168.63.129.16": "cloud metadata",
    "100.100.100.200": "cloud metadata",
    "192.0.0.192": "cloud metadata",
    "fd00:ec2::254": "cloud metadata",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "0.0.0.0": "wildcard",
    "0.1.2.3": "wildcard",
    "::": "wildcard",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "ff02::1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "192.0.2.1": "reserved",
    "2001:db8::1": "reserved",
    "4000::1": "reserved",
    "::ffff:169.254.169.254": "cloud metadata",
    "::ffff:0.0.0.0": "wildcard",
    "64:ff9b::a9fe:a9fe": "cloud metadata",
    "64:ff9b:1::a9fe:a9fe": "cloud metadata",
    "2002:a9fe:a9fe::1": "cloud metadata",
    "::a9fe:a9fe": "cloud metadata",
    "2001:0:a9fe:a9fe::1": "cloud metadata",
    "fe80::5efe:10.0.0.1": "link-local",
    "2001:4860::5efe:169.254.169.254": "cloud metadata",
}
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1",
    "::1", "fc00::1", "fd12::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "2002:c0a8:101::1", "::7f00:1", "2001:4860::5efe:10.0.0.1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("allow_private", [True, False])
@pytest.mark.parametrize(("address", "reason"), ALWAYS_REFUSED.items())
def test_always_refused(address: str, reason: str, allow_private: bool) -> None:
    """These are refused whatever the operator allows, in every form of writing them."""
    assert AddressPolicy(allow_private).refuse(address) == reason


@pytest.mark.parametrize("address", PRIVATE)
def test_private(address: str) -> None:
    """Private and loopback addresses are the operator's choice."""
    assert AddressPolicy().refuse(address) is None
    assert AddressPolicy(allow_private=False).refuse(address) in ("private", "loopback")


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    """Public addresses are always allowed."""
    assert AddressPolicy(allow_private=False).refuse(address) is None
