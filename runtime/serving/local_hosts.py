"""Check of Host headers against the names of this host."""

from __future__ import annotations

import ipaddress
import re

HOST = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def names_this_host(host: str) -> bool:
    """Report whether a Host header, with or without a port, names this host.

    True also for "", which no browser sends.
    """
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
