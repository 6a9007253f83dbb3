"""IP addresses, CIDR ranges and URLs.

Source: k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go, urls.go; Go net/netip and net/url. Difference: the error for an
address that cannot be parsed is less specific than Go's.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse

from msgspec import Struct

from kcm.runtime.cel.declarations import function, library
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.values import Opaque, Value

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Ip(Struct, Opaque, frozen=True):
    address: Address
    type_name = "net.IP"

    @property
    def size(self) -> int:
        return (self.address.max_prefixlen + 7) // 8


class Cidr(Struct, Opaque, frozen=True):
    """A CIDR. address: as written, including host bits."""

    address: Address
    bits: int
    type_name = "net.CIDR"

    @property
    def size(self) -> int:
        return (self.bits + 7) // 8

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.bits), strict=False)


class Url(Struct, Opaque, frozen=True):
    text: str
    scheme: str
    host: str
    path: str
    query: str
    type_name = "kubernetes.URL"

    @property
    def size(self) -> int:
        return len(self.text)


_CONTROLS = {chr(code): f"\\x{code:02x}" for code in (*range(32), 127)} | {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_CONTROLS.get(each, each) for each in escaped) + '"'


def _address(text: str) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        problem = f"ParseAddr({_quoted(text)}): unable to parse IP"
        raise EvaluationError(
            f"IP Address {_quoted(text)} parse error during conversion from string: {problem}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {_quoted(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return address


def _shown(address: Address) -> str:
    return str(address)


def _ip(text: str) -> Ip:
    return Ip(_address(text))


def _holds(test: Value) -> Value:
    def holds(text: str) -> bool:
        try:
            test(text)
        except EvaluationError:
            return False
        return True

    return holds


def _cidr(text: str) -> Cidr:
    left, slash, bits = text.rpartition("/")
    prefix = "network address parse error during conversion from string: "
    problem = f"{prefix}{prefix}netip.ParsePrefix({_quoted(text)}): "
    if not slash:
        raise EvaluationError(f"{problem}no '/'")
    try:
        address = ipaddress.ip_address(left)
    except ValueError:
        raise EvaluationError(f"{problem}ParseAddr({_quoted(left)}): unable to parse IP") from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise EvaluationError(f"{problem}IPv6 zones cannot be present in a prefix")
    if re.fullmatch(r"0|[1-9]\d{0,2}", bits, re.ASCII) is None:
        raise EvaluationError(f"{problem}bad bits after slash: {_quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{problem}prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f"{prefix}IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return Cidr(address, int(bits))


def _contains_ip(cidr: Cidr, other: Ip | str) -> bool:
    address = _address(other) if isinstance(other, str) else other.address
    return address.version == cidr.address.version and address in cidr.network


def _contains_cidr(cidr: Cidr, other: Cidr | str) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    return inner.address.version == cidr.address.version and inner.network.subnet_of(cidr.network)  # type: ignore[arg-type]


def _masked(cidr: Cidr) -> Cidr:
    return Cidr(cidr.network.network_address, cidr.bits)


def _host_address(cidr: Cidr) -> Ip:
    return Ip(cidr.address)


def _is_canonical(text: str) -> bool:
    return _shown(_address(text)) == text


def _is_global_unicast(ip: Ip) -> bool:
    address = ip.address
    broadcast = isinstance(address, ipaddress.IPv4Address) and int(address) == 2**32 - 1
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _is_link_local_multicast(ip: Ip) -> bool:
    if isinstance(ip.address, ipaddress.IPv4Address):
        return ip.address in ipaddress.IPv4Network("224.0.0.0/24")
    return ip.address in ipaddress.IPv6Network("ff02::/16") or int(ip.address) >> 112 & 0xFF0F == 0xFF02


_URL = re.compile(r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def request_uri_problem(text: str) -> str | None:
    """Return the problem of an absolute URL or path; None if it is valid. Source: Go url.ParseRequestURI."""
    if not text:
        return "empty url"
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in text):
        return "net/url: invalid control character in URL"
    if text == "*":
        return None
    match = _URL.fullmatch(text)
    assert match is not None
    scheme, host, path = match.group(1), match.group(2), match.group(3)
    if scheme is None and text.startswith(":"):
        return "missing protocol scheme"
    if scheme is None and not text.startswith("/"):
        return "invalid URI for request"
    if scheme is not None and host is None and not path.startswith("/"):
        return None
    bad = re.search(r"%(?![0-9a-fA-F]{2}).{0,2}", path + (host or "") + (match.group(5) or ""))
    if bad is not None:
        return f"invalid URL escape {_quoted(bad.group())}"
    return None if host is None else _host_problem(host)


def _host_problem(host: str) -> str | None:
    _user, _at, rest = host.rpartition("@")
    if rest.startswith("["):
        closing = rest.find("]")
        if closing < 0:
            return "missing ']' in host"
        rest = rest[closing + 1 :]
    elif " " in rest or re.search(r'[\\^`{|}"]', rest) is not None:
        return f'invalid character "{next(each for each in rest if each in " ^`{|}")}" in host name'
    port = rest[rest.find(":") :] if ":" in rest else ""
    if port and re.fullmatch(r":\d*", port) is None:
        return f"invalid port {_quoted(port)} after host"
    return None


def _url(text: str) -> Url:
    problem = request_uri_problem(text)
    if problem is not None:
        raise EvaluationError(f"URL parse error during conversion from string: parse {_quoted(text)}: {problem}")
    match = _URL.fullmatch(text)
    assert match is not None
    host, path = (match.group(2) or "").rpartition("@")[2], match.group(3)
    host = urllib.parse.unquote(host) if host.startswith("[") else host
    opaque = match.group(2) is None and not path.startswith("/")
    return Url(text, (match.group(1) or "").lower(), host, "" if opaque else path, match.group(4) or "")


def _hostname(url: Url) -> str:
    if url.host.startswith("["):
        return url.host[1:].partition("]")[0]
    return url.host.partition(":")[0]


def _port(url: Url) -> str:
    if url.host.startswith("["):
        return url.host.partition("]")[2].removeprefix(":")
    return url.host.partition(":")[2]


def _escaped_path(url: Url) -> str:
    return urllib.parse.quote(url.path, safe="/%:@&=+$,;~!*'()[]")


def _query(url: Url) -> dict[str, list[str]]:
    pairs = [each for each in url.query.split("&") if ";" not in each]  # upstream treats these as errors
    return urllib.parse.parse_qs("&".join(pairs), keep_blank_values=True)


NETWORKS = library(
    function("ip", ("string_to_ip", "string->net.IP", _ip), ("cidr_ip", ".net.CIDR->net.IP", _host_address)),
    function("family", ("ip_family", ".net.IP->int", lambda ip: ip.address.version)),
    function("ip.isCanonical", ("ip_is_canonical", "string->bool", _is_canonical)),
    function("isUnspecified", ("ip_is_unspecified", ".net.IP->bool", lambda ip: ip.address.is_unspecified)),
    function("isLoopback", ("ip_is_loopback", ".net.IP->bool", lambda ip: ip.address.is_loopback)),
    function("isLinkLocalMulticast", ("ip_is_link_local_multicast", ".net.IP->bool", _is_link_local_multicast)),
    function("isLinkLocalUnicast", ("ip_is_link_local_unicast", ".net.IP->bool", lambda ip: ip.address.is_link_local)),
    function("isGlobalUnicast", ("ip_is_global_unicast", ".net.IP->bool", _is_global_unicast)),
    function("isIP", ("is_ip", "string->bool", _holds(_ip))),
    function(
        "string",
        ("ip_to_string", "net.IP->string", lambda ip: _shown(ip.address)),
        ("cidr_to_string", "net.CIDR->string", lambda cidr: f"{_shown(cidr.address)}/{cidr.bits}"),
    ),
    function("cidr", ("string_to_cidr", "string->net.CIDR", _cidr)),
    function(
        "containsIP",
        ("cidr_contains_ip_string", ".net.CIDR,string->bool", _contains_ip),
        ("cidr_contains_ip_ip", ".net.CIDR,net.IP->bool", _contains_ip),
    ),
    function(
        "containsCIDR",
        ("cidr_contains_cidr_string", ".net.CIDR,string->bool", _contains_cidr),
        ("cidr_contains_cidr", ".net.CIDR,net.CIDR->bool", _contains_cidr),
    ),
    function("prefixLength", ("cidr_prefix_length", ".net.CIDR->int", lambda cidr: cidr.bits)),
    function("masked", ("cidr_masked", ".net.CIDR->net.CIDR", _masked)),
    function("isCIDR", ("is_cidr", "string->bool", _holds(_cidr))),
    function("url", ("string_to_url", "string->kubernetes.URL", _url)),
    function("getScheme", ("url_get_scheme", ".kubernetes.URL->string", lambda url: url.scheme)),
    function("getHost", ("url_get_host", ".kubernetes.URL->string", lambda url: url.host)),
    function("getHostname", ("url_get_hostname", ".kubernetes.URL->string", _hostname)),
    function("getPort", ("url_get_port", ".kubernetes.URL->string", _port)),
    function("getEscapedPath", ("url_get_escaped_path", ".kubernetes.URL->string", _escaped_path)),
    function("getQuery", ("url_get_query", ".kubernetes.URL->map(string,list(string))", _query)),
    function("isURL", ("is_url_string", "string->bool", lambda text: request_uri_problem(text) is None)),
)  # fmt: skip
