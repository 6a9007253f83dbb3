"""String formatting, '%s of %d'.format([a, b]): output of each clause, and validation of constant formats.

Source: cel-go ext/formatting.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kcm.runtime.cel import values
from kcm.runtime.cel.effort import spend
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.libraries import times
from kcm.runtime.cel.libraries.numbers import shown_double
from kcm.runtime.cel.values import Duration, Timestamp, TypeValue, Uint, Value, type_name

PRECISION = 6
DURING = "error during formatting: "
_INTEGERS = frozenset({"int", "uint"})
CLAUSES: dict[str, tuple[frozenset[str], str]] = {
    "s": (
        _INTEGERS
        | {"list", "map", "double", "bool", "string", "bytes", "type", "null_type"}
        | {"google.protobuf.Timestamp", "google.protobuf.Duration"},
        (
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
            "durations, and timestamps"
        ),
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "string"}), "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "x": (_INTEGERS | {"string", "bytes"}, "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}
"""By clause: the types that it takes, and what is said of another."""
CLAUSES["X"] = CLAUSES["x"]


def misfit(clause: str, given: str) -> str:
    return f"{CLAUSES[clause][1]}, was given {given}"


QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str) -> str:
    return '"' + "".join(QUOTED.get(letter, letter) for letter in text) + '"'


def _shown(value: Value) -> str:
    """Format a value as the clause %s does."""
    match value:
        case None:
            return "null"
        case bool():
            return values.shown(value)
        case float():
            return shown_double(value)
        case str():
            return value
        case int():
            return str(int(value))
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                problem = 'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
                raise EvaluationError(DURING + problem) from None
        case Timestamp():
            return times.shown_timestamp(value)
        case Duration():
            return times.shown_duration(value)
        case TypeValue():
            return value.name
        case list():
            spend(4 * len(value))
            return f"[{', '.join(map(_shown_inside, value))}]"
        case dict():
            spend(4 * len(value))
            pairs = sorted((_shown_inside(key), _shown_inside(each)) for key, each in value.items())
            return "{" + ", ".join(f"{key}:{each}" for key, each in pairs) + "}"
    raise EvaluationError(f"{DURING}no formatting function for {type_name(value)}")


def _shown_inside(value: Value) -> str:
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(_shown(value))}"
        case float():
            return f"{value:.{PRECISION}f}" if math.isfinite(value) else quoted(shown_double(value))
        case Timestamp():
            return f'timestamp("{_shown(value)}")'
        case Duration():
            return f'duration("{_shown(value)}")'
    return _shown(value)


def _clause(letter: str, precision: int | None, value: Value) -> str:
    if type_name(value) not in CLAUSES[letter][0]:
        raise EvaluationError(DURING + misfit(letter, type_name(value)))
    match letter:
        case "s":
            return _shown(value)
        case "d":
            return str(int(value))
        case "f" | "e":
            return _real(letter, PRECISION if precision is None else precision % 256, value)
        case "x" | "X":
            if type(value) in (int, Uint):
                text = f"{int(value):x}"
            else:
                text = (value.encode() if type(value) is str else value).hex()
            return text.upper() if letter == "X" else text
    return f"{int(value):{letter}}"


def _real(letter: str, places: int, value: float | str) -> str:
    """Format a real number as in American English: with commas, and six decimal places before an exponent (×10⁻⁰⁷).

    places: at most 255, because upstream stores it in a byte.
    """
    if isinstance(value, str):
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise EvaluationError(DURING + misfit(letter, "string"))
        value = float(value.replace("Infinity", "inf"))
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        return text.rjust(places) if letter == "e" else text
    if letter == "f":
        return f"{value or 0.0:,.{places}f}"
    mantissa, exponent = f"{value:.{PRECISION}e}".split("e")
    power = "".join("⁻" if digit == "-" else "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in exponent.removeprefix("+"))
    return f"{mantissa}×10{power}"


def formatted(text: str, arguments: list[Value]) -> str:
    return written(text, len(arguments), lambda place, letter, precision: _clause(letter, precision, arguments[place]))


def written(text: str, count: int, clause: Callable[[int, str, int | None], str]) -> str:
    """Format a text. clause: returns an argument's text, given its position, the clause's letter and the precision."""
    pieces: list[str] = []
    place = used = 0
    while place < len(text):
        letter = text[place]
        place += 1
        if letter != "%":
            pieces.append(letter)
            continue
        if text[place : place + 1] == "%":
            pieces.append("%")
            place += 1
            continue
        if place >= len(text):
            raise EvaluationError("unexpected end of string")
        if used >= count:
            raise EvaluationError(f"index {used} out of range")
        precision, place = _precision(text, place)
        letter = text[place]
        if letter not in CLAUSES:
            raise _unparsable(f'unrecognized formatting clause "{letter}"')
        pieces.append(clause(used, letter, precision))
        place, used = place + 1, used + 1
    return "".join(pieces)


def _unparsable(reason: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {reason}")


def _precision(text: str, place: int) -> tuple[int | None, int]:
    """Parse the precision of a clause. Return it with the position of the clause's letter."""
    if text[place] != ".":
        return None, place
    end = place + 1
    while end < len(text) and text[end] in "0123456789":
        end += 1
    if end >= len(text):
        raise _unparsable("error while parsing precision: could not find end of precision specifier")
    digits = text[place + 1 : end]
    if not digits or len(digits.lstrip("0")) > 18:
        problem = f'strconv.Atoi: parsing "{digits}": {"value out of range" if digits else "invalid syntax"}'
        raise _unparsable(f"error while parsing precision: error while converting precision to integer: {problem}")
    return int(digits), end
