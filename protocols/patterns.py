"""Regular expressions as Go has them.

RE2 itself matches: a pattern means there what it means upstream, and takes time in proportion to the text, so that no
pattern of a client's holds up the one thread of the server.

Source: regexp/syntax/parse.go for the texts of errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kcm.protocols.bounded_cache import bounded_cache

# What RE2 says of a pattern that it cannot parse → what Go says.
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


_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")  # which Go does not have


class PatternError(ValueError):
    """A pattern that is no regular expression of Go's; its text is Go's."""


@bounded_cache(512)
def compiled(pattern: str) -> Any:
    """Has search and finditer, as re.Pattern has. Raises PatternError."""
    import re2

    if _ANY_BYTE.search(pattern) is not None:
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _options())
    except re2.error as err:
        raise PatternError(_as_go_says(err.args[0].decode(errors="replace"))) from err


@bounded_cache(512)
def matcher(pattern: str) -> Callable[[str], Any]:
    """Returns what says of a text whether the pattern matches somewhere in it: something true. Raises PatternError."""
    import re2

    compiled(pattern)  # a set does not say what is wrong
    patterns = re2.Set.SearchSet(_options())  # which looks for no groups, and costs a quarter
    patterns.Add(pattern)
    patterns.Compile()
    matches: Callable[[str], Any] = patterns.Match
    return matches


def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _as_go_says(said: str) -> str:
    text, _, where = said.partition(": ")
    return f"error parsing regexp: {_TEXTS.get(text, text)}: `{where}`"
