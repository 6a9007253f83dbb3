"""Parsing of Warning headers."""

from __future__ import annotations

import pytest

from kcm.runtime.http.client.warning_headers import MOST_CHARACTERS, MOST_WARNINGS, warnings_of

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "warnings"),
    [
        ([], ()),
        ([OK, b"Content-Type: application/json\r\n", b"\r\n"], ()),
        ([OK, b'Warning: 299 - "unknown field \\"spec.x\\""\r\n', b"\r\n"], ('unknown field "spec.x"',)),
        ([OK, b'warning: 299 - "a"\r\n', b'WARNING: 299 - "b"\r\n'], ("a", "b")),
        ([OK, b'Warning: 299 - "a, b", 299 kube "c" "Wed, 21 Oct 2026 07:28:00 GMT"\r\n'], ("a, b", "c")),
        ([OK, b'Warning: 110 proxy "stale"\r\n', b'Warning: 299 - "a"\r\n', b'Warning: 299 - "a"\r\n'], ("a",)),
        (
            [
                OK,
                b"Warning: 299 - unquoted\r\n",
                b'Warning: 299 - "open\r\n',
                b"Warning:\r\n",
                b'Warning: 299 - ""\r\n',
            ],
            (),
        ),
        ([OK, b'Warning: 299 - "a \x1b[31m\tb \xff"\r\n'], ("a  [31m b \ufffd",)),
        (
            [OK, b'Warning: 299 - "of the proxy"\r\n', b"\r\n", OK, b'Warning: 299 - "of the server"\r\n'],
            ("of the server",),
        ),
        ([b"X-Note: HTTP/1.1\r\n", b'Warning: 299 - "a"\r\n'], ("a",)),
    ],
)
def test_warnings_are_parsed_from_headers(head: list[bytes], warnings: tuple[str, ...]) -> None:
    assert warnings_of(head) == warnings


def test_number_and_length_of_warnings_are_bounded() -> None:
    many = [b'Warning: 299 - "%d"\r\n' % number for number in range(1000)]
    assert len(warnings_of([OK, *many])) == MOST_WARNINGS
    long = b'Warning: 299 - "' + b"x" * 5000 + b'"\r\n'
    assert [len(warning) for warning in warnings_of([OK, long])] == [MOST_CHARACTERS]
    assert warnings_of([OK, b"Warning: " + b'299 - "' * 100_000 + b"\r\n"]) == ()
