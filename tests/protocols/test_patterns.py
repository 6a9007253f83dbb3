"""Go's regular expressions."""

from __future__ import annotations

import pytest

from kcm.protocols.patterns import PatternError, matcher

LABEL = r"[a-zA-Z0-9\p{S}\p{L}]"
# Of a CRD of OpenShift: a name of DNS, in letters of all scripts.
LARGE = (
    rf"^({LABEL}((-?{LABEL}{{0,62}})?)|({LABEL}(([a-zA-Z0-9-\p{{S}}\p{{L}}]{{0,61}}{LABEL})?)(\.)){{1,}}"
    r"([a-zA-Z\p{L}]){2,63})$"
)


@pytest.mark.parametrize("pattern", ["^[a-z]+$", LARGE], ids=["small", "larger than a set of patterns may be"])
def test_matcher_reports_whether_a_pattern_matches(pattern: str) -> None:
    matches = matcher(pattern)
    assert matches("example")
    assert not matches("-example-")


def test_invalid_pattern_has_the_error_text_of_go() -> None:
    with pytest.raises(PatternError, match="missing closing ]"):
        matcher("[a")
