"""Types of flags: how a value is parsed, formatted, and combined with the earlier value of a repeated flag.

Syntax and error texts are those of Go's strconv and time packages, as in kube-controller-manager.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Generic, TypeVar

from msgspec import Struct

from kcm.protocols.quantities import canonical_quantity

T = TypeVar("T")

MAX_NANOSECONDS = (1 << 63) - 1
NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
QUANTITY_SYNTAX = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"  # as Go's error text contains it
DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)")


class ValueType(Struct, Generic[T], frozen=True, kw_only=True):
    """Type of a flag's value.

    name: in --help; "" for none.
    parse: raises ValueError with the message for the user.
    show: the inverse of parse.
    bare: text of the value of a flag without a value; "" if a value is required.
    add: joins the values of a repeated flag; None if the last one is used.
    """

    name: str
    parse: Callable[[str], T]
    show: Callable[[T], str]
    bare: str = ""
    add: Callable[[T, T], T] | None = None


def quote(text: str) -> str:
    """Quote text as Go's %q does: in double quotes, with unprintable characters escaped."""
    return json.dumps(text, ensure_ascii=False)


def parse_bool(text: str) -> bool:
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def parse_int(text: str, *, bits: int) -> int:
    """Parse a Go integer literal (0x, 0o, 0b, a leading 0 for octal, _ between digits) that fits into `bits` bits."""
    octal = re.fullmatch(r"([+-]?)0([0-7_]+)", text)
    try:
        number = int(f"{octal[1]}0o{octal[2]}" if octal else text, 0)
        if text != text.strip():
            raise ValueError
    except ValueError:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


def parse_float(text: str) -> float:
    try:
        if not text.isascii() or "_" in text or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax") from None


def show_float(number: float) -> str:
    return str(int(number)) if math.isfinite(number) and number == int(number) else repr(number)


def parse_duration(text: str) -> float:
    """Parse a Go duration, "1m30s", "1.5h", "-300ms" or "0", to seconds. Raises ValueError."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    total, position = Decimal(0), 0
    while position < len(rest):
        part = DURATION_PART.match(rest, position)
        if part is None:
            break
        number, unit = part.groups()
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in NANOSECONDS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += Decimal(number) * NANOSECONDS[unit]
        position = part.end()
    if not rest or position < len(rest) or total > MAX_NANOSECONDS:
        raise ValueError(f"time: invalid duration {quote(text)}")
    return sign * float(total / NANOSECONDS["s"])


def format_duration(seconds: float) -> str:
    """Format a duration as Go does: "0s", "1.5s", "100ms", "12h0m0s"."""
    count = round(abs(seconds) * NANOSECONDS["s"])
    sign = "-" if seconds < 0 and count else ""
    if count == 0:
        return "0s"
    for unit, larger in (("ns", "us"), ("µs", "ms"), ("ms", "s")):
        if count < NANOSECONDS[larger]:
            return f"{sign}{_decimal(count, NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(count, NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, NANOSECONDS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _decimal(count: int, unit: int) -> str:
    whole, rest = divmod(count, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def parse_strings(text: str) -> tuple[str, ...]:
    """Parse comma-separated values; a value in double quotes may contain commas."""
    if not text:
        return ()
    try:
        return tuple(next(csv.reader(io.StringIO(text), strict=True), []))
    except csv.Error as error:
        raise ValueError(f"not a comma-separated list: {error}") from None


def show_strings(values: tuple[str, ...]) -> str:
    return f"[{','.join(values)}]"


def parse_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse comma-separated `key=value` pairs; a pair without "=" has the value ""."""
    pairs = (pair.strip() for pair in text.split(","))
    return tuple((key, value) for key, _, value in (pair.partition("=") for pair in pairs if pair))


def show_pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{key}={value}" for key, value in pairs)


def parse_map(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `key=value`, or several of them as a line of CSV, as pflag's StringToString does.

    A single pair may contain commas. Raises ValueError.
    """
    parts = [text.strip('"')] if text.count("=") == 1 else next(csv.reader([text], strict=True), [])
    pairs = [part.partition("=") for part in parts]
    for part, (_, equals, _) in zip(parts or [text], pairs or [("", "", "")], strict=True):
        if not equals:
            raise ValueError(f"{part} must be formatted as key=value")
    return tuple((key, value) for key, _, value in pairs)


def parse_vmodule(text: str) -> tuple[tuple[str, str], ...]:
    """Parse comma-separated `pattern=N` pairs. Raises ValueError if N is not a positive 32-bit number or 0."""
    pairs = []
    for pair in text.split(","):
        pattern, _, level = pair.partition("=")
        if not pair:
            continue
        if not pattern or not level or "=" in level:
            raise ValueError(f"{quote(pair)} does not have the pattern=N format")
        try:
            pairs.append((pattern, str(parse_level(level, base=10))))
        except ValueError as err:
            raise ValueError(f"parsing verbosity in {quote(pair)}: {err}") from None
    return tuple(pairs)


def parse_level(text: str, *, base: int = 0) -> int:
    """Parse a log verbosity, at least 0 and below 2**31. base: 0 accepts any Go literal."""
    try:
        if text[:1] in ("+", "-") or (base == 10 and not (text.isascii() and text.isdigit())):
            raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
        number = int(text) if base == 10 else parse_int(text, bits=64)
        if number >= 1 << 31:
            raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    except ValueError as err:
        raise ValueError(str(err).replace("ParseInt", "ParseUint")) from None
    return number


def parse_quantity_text(text: str) -> str:
    """Return the canonical text of a quantity, such as "64Ki" or "1M". Raises ValueError with Go's text."""
    try:
        return canonical_quantity(text)
    except ValueError:
        syntax = re.fullmatch(QUANTITY_SYNTAX[1:-1], text)
        if syntax is not None and syntax[1].count(".") < 2:
            raise ValueError("unable to parse quantity's suffix") from None
        raise ValueError(f"quantities must match the regular expression '{QUANTITY_SYNTAX}'") from None


def parse_integers(text: str) -> tuple[int, ...]:
    """Parse comma-separated 32-bit integers."""
    return tuple(parse_int(part.strip(), bits=32) for part in text.split(","))


def show_integers(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def parse_named_pair(text: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Parse `cert,key` or `cert,key:name,name` to (certificate file, key file, names)."""
    files, colon, names = (part.strip() for part in text.partition(":"))
    if colon and not names:
        raise ValueError("empty names list is not allowed")
    paths = [path.strip() for path in files.split(",")]
    if len(paths) != 2 or not all(paths):
        raise ValueError("expected comma separated certificate and key file paths")
    return ((paths[0], paths[1], tuple(name.strip() for name in names.split(",") if name.strip())),)


def show_named_pairs(pairs: tuple[tuple[str, str, tuple[str, ...]], ...]) -> str:
    shown = (f"{certificate},{key}{':' * bool(names)}{','.join(names)}" for certificate, key, names in pairs)
    return f"[{';'.join(shown)}]"


def _join(before: tuple[T, ...], more: tuple[T, ...]) -> tuple[T, ...]:
    return before + more


BOOL = ValueType(name="", parse=parse_bool, show=lambda value: "true" if value else "false", bare="true")
INT = ValueType(name="int", parse=lambda text: parse_int(text, bits=64), show=str)
INT32 = ValueType(name="int32", parse=lambda text: parse_int(text, bits=32), show=str)
LEVEL = ValueType(name="Level", parse=lambda text: parse_level(text), show=str)
FLOAT = ValueType(name="float", parse=parse_float, show=show_float)
FLOAT32 = ValueType(name="float32", parse=parse_float, show=show_float)
STRING: ValueType[str] = ValueType(name="string", parse=str, show=quote)
QUANTITY: ValueType[str] = ValueType(name="quantity", parse=parse_quantity_text, show=str)
DURATION = ValueType(name="duration", parse=parse_duration, show=format_duration)
STRINGS = ValueType(name="strings", parse=parse_strings, show=show_strings, add=_join)
FILES: ValueType[tuple[str, ...]] = ValueType(name="file", parse=lambda text: (text,), show=show_strings, add=_join)
INTEGERS: ValueType[tuple[int, ...]] = ValueType(name="int32Slice", parse=parse_integers, show=show_integers, add=_join)
NAMED_PAIRS: ValueType[tuple[tuple[str, str, tuple[str, ...]], ...]] = ValueType(
    name="cert,key[:name,...]", parse=parse_named_pair, show=show_named_pairs, add=_join
)
PAIRS = ValueType(name="key=value,...", parse=parse_pairs, show=show_pairs, add=_join)
MAP = ValueType(name="stringToString", parse=parse_map, show=lambda pairs: f"[{show_pairs(pairs)}]", add=_join)
VMODULE = ValueType(name="pattern=N,...", parse=parse_vmodule, show=show_pairs)
VERSION = ValueType(name="version[=true]", parse=str, show=lambda text: text or "false", bare="true")
