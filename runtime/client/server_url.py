"""Validation of the API server's URL, and of the URL of an HTTP proxy to it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from kcm.protocols.integers import parse_uint
from kcm.runtime.client.config import ConfigError

PROXY_SCHEMES = ("http", "https")


def server_url(text: str, *, origin: str, tls: bool) -> str:
    """Return the API server's URL without a trailing slash.

    text: a URL, or "host:port", which is https if tls, otherwise http.
    Raises ConfigError if the URL is not http or https, or contains a user, a query or a fragment.
    """
    url = text if "://" in text else f"{'https' if tls else 'http'}://{text}"
    parts = _split(url, origin)
    if parts.query or parts.fragment or parts.username is not None:
        raise ConfigError(f"{origin}: the URL must not contain a user, a query or a fragment")
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"{origin}: {text!r} is neither an http nor an https URL")
    return url.rstrip("/")


def proxy_url(text: str, *, origin: str) -> str:
    """Return the proxy's URL unchanged. Raises ConfigError for unsupported schemes."""
    scheme = _split(text, origin).scheme
    if scheme not in PROXY_SCHEMES:
        raise ConfigError(f"{origin}: a {scheme or 'nameless'} proxy is not supported; known: http, https")
    return text


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, also in lower case; "" for none.

    Raises ConfigError as proxy_url does. Source: golang.org/x/net/http/httpproxy, which client-go uses.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = f"{parts.scheme.upper()}_PROXY"
    name = name if environ.get(name) else name.lower()
    proxy = environ.get(name, "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not proxy or _is_loopback(host) or _is_excluded(host, port, no_proxy):
        return ""
    return proxy_url(proxy if "://" in proxy else f"http://{proxy}", origin=f"environment: {name}")


def _split(url: str, origin: str) -> SplitResult:
    shown = url.rpartition("@")[2]  # without a password
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError, as does urlsplit
    except ValueError as err:
        raise ConfigError(f"{origin}: {shown!r} is not a URL: {err}") from err
    if not parts.hostname or port == 0 or any(c.isspace() or not c.isprintable() for c in url):
        raise ConfigError(f"{origin}: {shown!r} is not a URL with a host")
    return parts


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _is_excluded(host: str, port: int, no_proxy: str) -> bool:
    """Report whether NO_PROXY contains a host. "example.com" includes its subdomains; ".example.com" is only these."""
    address = _address(host)
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry == "*":
            return True
        if address is not None and _network_contains(entry, address):
            return True
        name, colon, wanted = entry.rpartition(":")
        excluded = parse_uint(wanted)
        if colon and excluded is not None and name.count(":") != 1:
            if excluded != port:
                continue
            entry = name.strip("[]")
        entry = entry.removeprefix("*")
        if entry and (host == entry or host.endswith(entry if entry.startswith(".") else f".{entry}")):
            return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network_contains(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
