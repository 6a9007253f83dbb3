"""Go's regular expressions.

RE2 does the matching, so that patterns have the same meaning as upstream. Its time is linear in the size of the text,
so a client's pattern cannot block the server's only thread.

Source: regexp/syntax/parse.go for the texts of errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kcm.protocols.bounded_cache import bounded_cache

# RE2's error text for an invalid pattern → Go's.
_TEXTS = {
    "bad character class": "invalid character class",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # Go does not support it


class PatternError(ValueError):
    """Invalid pattern, with Go's error text."""


@bounded_cache(512)
def compiled(pattern: str) -> Any:
    """Return a pattern with the methods search and finditer of re.Pattern. Raises PatternError."""
    import re2

    if _ANY_BYTE.search(pattern) is not None:
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _options())
    except re2.error as err:
        raise PatternError(_go_error(err.args[0].decode(errors="replace"))) from err


@bounded_cache(512)
def matcher(pattern: str) -> Callable[[str], Any]:
    """Return a function that reports whether the pattern matches anywhere in a text. Raises PatternError."""
    import re2

    alone = compiled(pattern)  # a set does not report the error
    patterns = re2.Set.SearchSet(_options())  # does not search for groups, and takes a quarter of the time
    patterns.Add(pattern)
    try:
        patterns.Compile()
    except re2.error:  # a set needs more memory, as it has no engine without a DFA
        search: Callable[[str], Any] = alone.search
        return search
    matches: Callable[[str], Any] = patterns.Match
    return matches


def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _go_error(message: str) -> str:
    text, _, where = message.partition(": ")
    return f"error parsing regexp: {_TEXTS.get(text, text)}: `{where}`"
