"""Validation of IP addresses and ranges, with upstream's error texts.

Source: apimachinery pkg/util/validation/ip.go (parseIP, parseCIDR with strictValidation),
kubernetes pkg/apis/core/validation/validation.go (ValidateEndpointIP; v1.36).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid

IPV4, IPV6 = "IPv4", "IPv6"
_leading_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")


def family_of(address: str) -> str:
    """Return the IP family of an address; "unknown" if it is invalid."""
    try:
        return IPV4 if ip_address(address).version == 4 else IPV6
    except ValueError:
        return "unknown"


def validate_ip(address: str, field: str) -> list[FieldError]:
    """Validate an IP address. Non-canonical forms of IPv6 addresses are valid."""
    problem = _ip_problem(address)
    return [invalid(field, address, problem)] if problem else []


def _ip_problem(address: str) -> str:
    parsed = _parsed(address)
    if parsed is None:
        if "." in address and _parsed(_leading_zeros.sub("", address)) is not None:
            return "must not have leading 0s"
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in address else ip_address(address)
    except ValueError:
        return None


def validate_cidr(cidr: str, field: str) -> list[FieldError]:
    """Validate a CIDR. Bits set beyond the prefix are an error."""
    problem = _cidr_problem(cidr)
    return [invalid(field, cidr, problem)] if problem else []


def _cidr_problem(cidr: str) -> str:
    address, slash, length = cidr.partition("/")
    plain = _leading_zeros.sub("", address) if "." in address else address
    try:
        if not slash or not re.fullmatch("[0-9]+", length) or _parsed(plain) is None:
            raise ValueError(cidr)
        found = ip_network((plain, int(length)), strict=False)
    except ValueError:
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if plain != address or length != str(int(length)):
        return "must not have leading 0s in IP or prefix length"
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    if parsed != found.network_address:
        return "must not have bits set beyond the prefix length"
    return ""


def wrong_endpoint_address(address: str, field: str) -> list[FieldError]:
    """Validate the address of an endpoint: its syntax, and that it is reachable from other hosts."""
    # _is_endpoint is cached, because each write of an EndpointSlice repeats all of its addresses.
    if _is_endpoint(address):
        return []
    errors = validate_ip(address, field)
    return errors or validate_endpoint_ip(address, field)


@bounded_cache(65536, longest=64)
def _is_endpoint(address: str) -> bool:
    return not _ip_problem(address) and not validate_endpoint_ip(address, "")


def validate_endpoint_ip(address: str, field: str) -> list[FieldError]:
    """Return errors for an address that cannot be an endpoint: unspecified, loopback or link-local.

    address: a syntactically valid address.
    """
    parsed = ip_address(address)
    problems = []
    if parsed.is_unspecified:
        problems.append(f"may not be unspecified ({address})")
    if parsed.is_loopback:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if parsed.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(parsed):
        problems.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return [invalid(field, address, text) for text in problems]


def _is_link_local_multicast(address: IPv4Address | IPv6Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02
