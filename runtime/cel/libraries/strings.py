"""Functions on strings.

Source: cel-go ext/strings.go (version 2, as Kubernetes chooses).
"""

from __future__ import annotations

from kcm.runtime.cel.declarations import function, library
from kcm.runtime.cel.errors import CostExceededError, EvaluationError
from kcm.runtime.cel.libraries.format import formatted, quoted

SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
UPPER = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}
LOWER = {ord(letter.upper()): letter for letter in "abcdefghijklmnopqrstuvwxyz"}


LONGEST = 10_000_000  # characters; upstream has no limit


def _out_of_range(place: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {place}")


def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise _out_of_range(place)
    return text[place : place + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    replaced = text.count(old) if count < 0 else min(text.count(old), count)
    if len(text) + replaced * len(new) > LONGEST:
        raise CostExceededError
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
    if sum(map(len, pieces)) + len(separator) * len(pieces) > LONGEST:
        raise CostExceededError
    return separator.join(pieces)


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
    function("format", ("string_format", ".string,list(dyn)->string", formatted)),
    function("strings.quote", ("strings_quote", "string->string", quoted)),
    function(
        "join",
        ("list_join", ".list(string)->string", _join),
        ("list_join_string", ".list(string),string->string", _join),
    ),
)
