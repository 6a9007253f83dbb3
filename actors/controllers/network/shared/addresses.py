"""Addresses by family, as they are written in endpoints."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from kcm.protocols.bounded_cache import bounded_cache, first_size

IPV4, IPV6 = "IPv4", "IPv6"


class IPAddress(NamedTuple):
    """family: IPV4 or IPV6. text: in its canonical form."""

    family: str
    text: str


@bounded_cache(8192, longest=64)
def read_address(text: str) -> IPAddress | None:
    """None for what is no address. Leading zeros are read as decimal, as upstream's ParseIPSloppy does."""
    try:
        found = ip_address(text)
    except ValueError:
        parts = text.split(".")
        if len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        try:
            found = ip_address(".".join(str(int(part)) for part in parts))
        except ValueError:
            return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return IPAddress(IPV6 if isinstance(found, IPv6Address) else IPV4, str(found))


@bounded_cache(8192, size=first_size)
def addresses_of(ips: str, family: str) -> tuple[str, ...]:
    """Those of one family. ips: as PodFacts.ips."""
    found = (read_address(text) for text in ips.split(",")) if ips else ()
    return tuple(address.text for address in found if address is not None and address.family == family)
