"""IP addresses as text."""

from __future__ import annotations

import ipaddress


def is_address(text: str) -> bool:
    """Report whether the text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def host_port(host: str, port: int | None) -> str:
    """Join host and port like Go's net.JoinHostPort: "10.0.0.1:80", "[fd00::1]:80"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
