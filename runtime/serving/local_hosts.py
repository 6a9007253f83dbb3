"""Whether a request means this host, by its Host header."""

from __future__ import annotations

import ipaddress
import re

HOST = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def names_this_host(host: str) -> bool:
    """host: the header's value, with or without a port. "" counts, as no browser sends it."""
    found = HOST.fullmatch(host.strip())
    if found is None:
        return False
    name = found["name"].strip("[]").rstrip(".").lower()
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
