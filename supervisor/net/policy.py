"""Which addresses may be dialled. For webhooks: the URL of a check was written by the operator, who may mean any."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

_IPv4 = ipaddress.IPv4Address
_IPv6 = ipaddress.IPv6Address
_Network6 = ipaddress.IPv6Network
_Network4 = ipaddress.IPv4Network

# Well-known and local-use NAT64 (RFC 6052, 8215): the last 32 bits are the IPv4 address for prefixes of 96 bits.
_NAT64 = (_Network6("64:ff9b::/96"), _Network6("64:ff9b:1::/48"))
_COMPATIBLE = _Network6("::/96")
_SITE_LOCAL = _Network6("fec0::/10")
_ISATAP = 0x5EFE  # RFC 5214: ::0:5efe:a.b.c.d or ::200:5efe:a.b.c.d as interface identifier
_METADATA = frozenset(
    {
        _IPv4("169.254.169.254"),  # AWS, Azure, Google, DigitalOcean ...
        _IPv4("169.254.170.2"),  # ECS tasks
        _IPv4("168.63.129.16"),  # Azure's wire server, a public address
        _IPv4("100.100.100.200"),  # Alibaba
        _IPv4("192.0.0.192"),  # Oracle
        _IPv6("fd00:ec2::254"),  # AWS
        _IPv6("fd20:ce::254"),  # Google
    }
)
_PRIVATE4 = tuple(
    _Network4(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")
)
_REFUSED4 = (
    ("wildcard", _Network4("0.0.0.0/8")),
    ("link-local", _Network4("169.254.0.0/16")),
    ("multicast", _Network4("224.0.0.0/4")),
    ("reserved", _Network4("240.0.0.0/4")),
    ("reserved", _Network4("192.0.0.0/24")),
    ("reserved", _Network4("192.0.2.0/24")),
    ("reserved", _Network4("198.51.100.0/24")),
    ("reserved", _Network4("203.0.113.0/24")),
)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Link-local, cloud metadata, wildcard, multicast and reserved addresses are always refused."""

    allow_private: bool = True

    def refuse(self, address: str) -> str | None:
        """Why this numeric address (zones allowed) must not be dialled, or None if it may."""
        for form in _forms(ipaddress.ip_address(address.partition("%")[0])):
            reason = _refuse4(form) if isinstance(form, _IPv4) else _refuse6(form)
            if reason is None and not self.allow_private and _is_private(form):
                reason = "loopback" if form.is_loopback else "private"
            if reason is not None:
                return reason
        return None


def _forms(address: _IPv4 | _IPv6) -> tuple[_IPv4 | _IPv6, ...]:
    """Every address a packet to this one may end up at: IPv4 inside IPv6 is looked at too."""
    if isinstance(address, _IPv4):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    low = _IPv4(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _NAT64):
        return (low,)
    if address in _COMPATIBLE and int(address) > 1:
        return (low,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if (int(address) >> 32) & 0xFDFFFFFF == _ISATAP:
        return (address, low)
    return (address,)


def _refuse4(address: _IPv4) -> str | None:
    if address in _METADATA:
        return "cloud metadata"
    for reason, network in _REFUSED4:
        if address in network:
            return reason
    return None


def _refuse6(address: _IPv6) -> str | None:
    if address in _METADATA:
        return "cloud metadata"
    if address.is_loopback or address in _SITE_LOCAL:
        return None  # private, see _is_private
    if address.is_unspecified:
        return "wildcard"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_reserved or address in _Network6("2001:db8::/32") or address in _Network6("100::/64"):
        return "reserved"
    return None


def _is_private(address: _IPv4 | _IPv6) -> bool:
    if isinstance(address, _IPv4):
        return address.is_loopback or any(address in network for network in _PRIVATE4)
    return address.is_loopback or address in _SITE_LOCAL or address in _Network6("fc00::/7")
