"""Functions on strings.

Source: cel-go ext/strings.go (version 2, as Kubernetes chooses), ext/formatting.go.
"""

from __future__ import annotations

import math

from runtime.cel import values
from runtime.cel.declarations import function, library
from runtime.cel.errors import EvaluationError
from runtime.cel.libraries import times
from runtime.cel.libraries.numbers import shown_double
from runtime.cel.values import Duration, Timestamp, TypeValue, Uint, Value, type_name

SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
UPPER = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}
LOWER = {ord(letter.upper()): letter for letter in "abcdefghijklmnopqrstuvwxyz"}
PRECISION = 6


def _out_of_range(place: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise _out_of_range(place)
    return text[place : place + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if part and not 0 <= offset < len(text):
        if offset == 0 or (offset == len(text) and offset >= 0):
            return -1
        raise _out_of_range(offset)
    return offset if not part else text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if not part:
        return offset
    if not 0 <= offset < len(text):
        if not text and offset == 0:
            return -1
        raise _out_of_range(offset)
    return text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        pieces = list(text)
        return pieces if count < 0 or len(pieces) <= count else [*pieces[: count - 1], "".join(pieces[count - 1 :])]
    return text.split(separator, count - 1 if count > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(pieces: list[str], separator: str = "") -> str:
    for piece in pieces:
        if type(piece) is not str:
            raise EvaluationError(f"join: invalid input: {piece}")
    return separator.join(pieces)


QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str) -> str:
    return '"' + "".join(QUOTED.get(letter, letter) for letter in text) + '"'


def shown(value: Value) -> str:
    """A value as %s writes it."""
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
            return value.decode("utf-8", "replace")
        case Timestamp():
            return times.shown_timestamp(value)
        case Duration():
            return times.shown_duration(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_shown_inside, value))}]"
        case dict():
            pairs = sorted((_shown_inside(key), _shown_inside(each)) for key, each in value.items())
            return "{" + ", ".join(f"{key}:{each}" for key, each in pairs) + "}"
    raise _format_error(
        "error: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        f"and timestamps, was given {type_name(value)}"
    )


def _shown_inside(value: Value) -> str:
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(shown(value))}"
        case float():
            text = _fixed(value, PRECISION)
            return text if math.isfinite(value) else quoted(text)
        case Timestamp():
            return f'timestamp("{shown(value)}")'
        case Duration():
            return f'duration("{shown(value)}")'
    return shown(value)


def _fixed(value: float, precision: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{precision}f}"


def _format_error(text: str) -> EvaluationError:
    return EvaluationError(f"error during formatting: {text}")


def _clause(letter: str, precision: int | None, value: Value) -> str:
    kind = type(value)
    name = type_name(value)
    whole = kind in (int, Uint)
    match letter:
        case "s":
            return shown(value)
        case "d":
            if not whole:
                raise _format_error(f"decimal clause can only be used on integers, was given {name}")
            return str(int(value))
        case "f" | "e":
            if kind is str and value in ("NaN", "Infinity", "-Infinity"):
                value = float(value.replace("Infinity", "inf"))
            elif kind is not float:
                word = "fixed-point" if letter == "f" else "scientific"
                raise _format_error(f"{word} clause can only be used on doubles, was given {name}")
            places = PRECISION if precision is None else precision
            if letter == "f" or not math.isfinite(value):
                return _fixed(value, places)
            mantissa, exponent = f"{value:.{places}e}".split("e")
            power = "".join(
                "⁻" if digit == "-" else "⁺" if digit == "+" else "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)]
                for digit in str(int(exponent)).rjust(2, "0")
            )
            return f"{mantissa}\u202f×\u202f10{power}"
        case "b":
            if kind is not bool and not whole:
                raise _format_error(f"only integers and bools can be formatted as binary, was given {name}")
            return f"{int(value):b}"
        case "x" | "X":
            if kind in (str, bytes):
                text = (value.encode() if kind is str else value).hex()
            elif whole:
                text = f"{int(value):x}"
            else:
                raise _format_error(
                    f"only integers, byte buffers, and strings can be formatted as hex, was given {name}"
                )
            return str(text.upper() if letter == "X" else text)
        case "o":
            if not whole:
                raise _format_error(f"octal clause can only be used on integers, was given {name}")
            return f"{int(value):o}"
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')


def _format(text: str, arguments: list[Value]) -> str:
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
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        if place >= len(text):
            raise EvaluationError("unexpected end of string")
        precision = None
        if text[place] == ".":
            end = place + 1
            while end < len(text) and text[end] in "0123456789":
                end += 1
            if end >= len(text) or end == place + 1:
                reason = (
                    "could not find end of precision specifier"
                    if end >= len(text)
                    else "error while converting precision to integer"
                )
                raise EvaluationError(f"could not parse formatting clause: error while parsing precision: {reason}")
            precision, place = int(text[place + 1 : end]), end
        pieces.append(_clause(text[place], precision, arguments[used]))
        place, used = place + 1, used + 1
    return "".join(pieces)


STRINGS = library(
    function("charAt", ("string_char_at_int", ".string,int->string", _char_at)),
    function(
        "indexOf",
        ("string_index_of_string", ".string,string->int", _index_of),
        ("string_index_of_string_int", ".string,string,int->int", _index_of),
    ),
    function(
        "lastIndexOf",
        ("string_last_index_of_string", ".string,string->int", _last_index_of),
        ("string_last_index_of_string_int", ".string,string,int->int", _last_index_of),
    ),
    function("lowerAscii", ("string_lower_ascii", ".string->string", lambda text: text.translate(LOWER))),
    function("upperAscii", ("string_upper_ascii", ".string->string", lambda text: text.translate(UPPER))),
    function(
        "replace",
        ("string_replace_string_string", ".string,string,string->string", _replace),
        ("string_replace_string_string_int", ".string,string,string,int->string", _replace),
    ),
    function(
        "split",
        ("string_split_string", ".string,string->list(string)", _split),
        ("string_split_string_int", ".string,string,int->list(string)", _split),
    ),
    function(
        "substring",
        ("string_substring_int", ".string,int->string", _substring),
        ("string_substring_int_int", ".string,int,int->string", _substring),
    ),
    function("trim", ("string_trim", ".string->string", lambda text: text.strip(SPACE))),
    function("format", ("string_format", ".string,list(dyn)->string", _format)),
    function("strings.quote", ("strings_quote", "string->string", quoted)),
    function(
        "join",
        ("list_join", ".list(string)->string", _join),
        ("list_join_string", ".list(string),string->string", _join),
    ),
)
