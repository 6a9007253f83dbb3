"""Parsing of the IP addresses of pods and endpoints into canonical form, by IP family."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from kcm.protocols.bounded_cache import bounded_cache, first_size

IPV4, IPV6 = "IPv4", "IPv6"


class IPAddress(NamedTuple):
    """IP address in canonical form."""

    family: str  # IPV4 or IPV6
    text: str


@bounded_cache(8192, longest=64)
def read_address(text: str) -> IPAddress | None:
    """Parse an IP address; None if it is invalid. Leading zeros are accepted, as in upstream's ParseIPSloppy."""
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
    """Return the addresses of one IP family in canonical form.

    ips: comma-separated addresses of a pod, as in PodFacts.ips; invalid addresses are ignored.
    family: IPV4 or IPV6.
    """
    found = (read_address(text) for text in ips.split(",")) if ips else ()
    return tuple(address.text for address in found if address is not None and address.family == family)
