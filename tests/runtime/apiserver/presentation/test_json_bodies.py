from __future__ import annotations

import pytest

from kcm.runtime.apiserver.presentation.json_bodies import LARGEST_INDENTED, encoded, wants_indented


@pytest.mark.parametrize(
    ("target", "agent", "expected"),
    [
        (b"/api", b"", False),
        (b"/api", b"kubectl/v1.36.2 (linux/amd64)", False),
        (b"/api", b"curl/8.5.0", True),
        (b"/api", b"Wget/1.21", True),
        (b"/api", b"Mozilla/5.0 (X11)", True),
        (b"/api", b"Mozilla/4.0", False),
        (b"/api?pretty=true", b"", True),
        (b"/api?a=b&pretty=1", b"", True),
        (b"/api?pretty=false", b"curl/8.5.0", False),
        (b"/api?pretty=yes", b"curl/8.5.0", False),
        (b"/api?pretty=", b"curl/8.5.0", True),
        (b"/api?pretty", b"", False),
        (b"/pretty", b"", False),
    ],
)
def test_body_is_indented_for_browsers_and_curl(target: bytes, agent: bytes, expected: bool) -> None:
    assert wants_indented(target, agent) is expected


@pytest.mark.parametrize(
    ("body", "indented", "expected"),
    [
        (b'{"a":1}', False, b'{"a":1}\n'),
        (b'{"a":[1,{}],"b":{}}', True, b'{\n  "a": [\n    1,\n    {}\n  ],\n  "b": {}\n}'),
        (b'{"a":"<b> & c"}', False, b'{"a":"\\u003cb\\u003e \\u0026 c"}\n'),
        (b'{"a":"<"}', True, b'{\n  "a": "\\u003c"\n}'),
    ],
)
def test_body_is_formatted_as_by_gos_encoder(body: bytes, indented: bool, expected: bytes) -> None:
    assert encoded(body, b"/api?pretty=1" if indented else b"/api", b"") == expected


def test_a_large_body_is_not_indented() -> None:
    body = b'["' + b"x" * LARGEST_INDENTED + b'"]'
    assert encoded(body, b"/api", b"curl/8.5.0") == body + b"\n"
