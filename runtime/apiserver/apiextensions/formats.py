"""String and number formats of schemas. Unknown formats are ignored.

Source: apiextensions-apiserver pkg/apiserver/validation/formats.go, kube-openapi pkg/validation/strfmt,
pkg/internal/third_party/govalidator (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import urlsplit

from kcm.runtime.apiserver.apiextensions.schemas import Schema, types_of

IsOfFormat = Callable[[str], bool]

_SHORT = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_ANY_FOUR, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_COLOR = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_CARD = (
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|"
    r"3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_SIXTY_FOUR = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_MAC = re.compile(
    r"[0-9a-fA-F]{2}(?:(:|-)[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2}|(?:\1[0-9a-fA-F]{2}){14})?|"
    r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?"
)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_AMOUNT = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = (
    *(("ns", "nano"), ("us", "µs", "micro"), ("ms", "milli"), ("s", "sec")),
    *(("m", "min"), ("h", "hr", "hour"), ("d", "day"), ("w", "wk", "week")),
)
_LABEL_CHARACTER = r"[^\W_]"  # letter or digit of any script
_HOSTNAME = re.compile(
    rf"(?:{_LABEL_CHARACTER}(?:(?:[-\w]{{0,61}}{_LABEL_CHARACTER})?)\.)*{_LABEL_CHARACTER}(?:[-\w]{{0,61}}{_LABEL_CHARACTER})?"
)
_MAIL = re.compile(r"(?:[^<>]*<)?[^\s@<>,;:\\\"\[\]()]+@[^\s@<>,;:\\\"()]+>?")


def _matches(pattern: str, flags: int = 0) -> IsOfFormat:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str) -> IsOfFormat:
    return _matches(_UUID % (version, variant), re.IGNORECASE)


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return text.startswith("0000-")  # a year that is valid in Go and not in Python
    return True


def _is_date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    found = _TIME.match(rest) if _is_date(day) else None
    if found is None or found.end() != len(rest.partition("t")[0]):
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_duration(text: str) -> bool:
    """Report whether the text is a Go duration, or a Scala duration such as "3 days"."""
    if _GO_DURATION.fullmatch(text):
        return True
    units = [found.lower() for found in _AMOUNT.findall(text)]
    return any(unit in variants or unit.startswith(variants[-1]) for unit in units for variants in _UNITS)


def _is_hostname(text: str) -> bool:
    return len(text.encode()) <= 255 and _HOSTNAME.fullmatch(text) is not None and "_" not in text


def _is_ipv4(text: str) -> bool:
    """Report whether the text is an IPv4 address. Leading zeros are valid, as in Go's old parser."""
    parts = text.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts)


def _is_ipv6(text: str) -> bool:
    try:
        return ":" in text and "%" not in text and bool(IPv6Address(text))
    except AddressValueError:
        return False


def _is_cidr(text: str) -> bool:
    address, _, length = text.partition("/")
    if not (length.isascii() and length.isdigit()):
        return False
    return int(length) <= (32 if _is_ipv4(address) else 128 if _is_ipv6(address) else -1)


def _is_uri(text: str) -> bool:
    """Report whether the text is an absolute URI or an absolute path, as Go's url.ParseRequestURI."""
    if not text or any(ord(character) < 0x20 or character in " \x7f" for character in text.partition("?")[0]):
        return False
    if re.search(r"%(?![0-9a-fA-F]{2})", text.partition("?")[0]):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or (bool(parts.scheme) and bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)))


def _is_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not re.fullmatch(_CARD, digits):
        return False
    doubled = (int(digit) * (1 + i % 2) for i, digit in enumerate(reversed(digits)))
    return sum(product % 10 + 1 if product > 9 else product for product in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    return sum((i + 1) * (10 if digit == "X" else int(digit)) for i, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    return (
        bool(re.fullmatch("[0-9]{13}", digits))
        and sum(int(digit) * (1, 3)[i % 2] for i, digit in enumerate(digits)) % 10 == 0
    )


def _is_short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_SHORT, text) is not None


def _is_long_name(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(rf"{_SHORT}(?:\.{_SHORT})*", text) is not None


# By name without hyphens, as in upstream's lookup.
FORMATS: Mapping[str, IsOfFormat] = {
    "bsonobjectid": _matches("[0-9a-f]{24}", re.IGNORECASE),
    "uri": _is_uri,
    "email": lambda text: _MAIL.fullmatch(text.strip()) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(_ANY_FOUR, _ANY_FOUR),
    "uuid3": _uuid("3[0-9a-f]{3}", _ANY_FOUR),
    "uuid4": _uuid("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-f]{3}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": lambda text: len(text) == 11 and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", text, re.ASCII) is not None,
    "hexcolor": _matches("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "byte": _matches(_SIXTY_FOUR),
    "password": lambda _text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}
_OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_of(schema: Schema) -> str:
    """Return the format to validate; "" if it is ignored."""
    name, types = schema.get("format") or "", types_of(schema)
    if len(types) != 1 or types == ("string",):
        return name if name.replace("-", "") in FORMATS else ""
    return name if name in _OF_NUMBERS.get(types[0], ()) else ""


def is_of_format(name: str) -> IsOfFormat | None:
    """Return the function that checks a string format; None if the format is unknown."""
    return FORMATS.get(name.replace("-", ""))
