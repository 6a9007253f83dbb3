"""YAML as kube-apiserver 1.36 reads it: values and errors were recorded from it."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest

from kcm.runtime.process.go_yaml import DEEPEST, LARGEST, MOST_EVENTS, YamlError, read_all, read_first

# The text after "v: " and the value that kube-apiserver read.
VALUES: list[tuple[str, Any]] = [
    ("1", 1),
    ("+1", 1),
    ("-1", -1),
    ("0", 0),
    ("00", 0),
    ("007", 7),
    ("08", 8),
    ("-08", -8),
    ("0o17", 15),
    ("0O17", 15),
    ("0x1F", 31),
    ("0X1f", 31),
    ("-0x1f", -31),
    ("0b101", 5),
    ("-0b101", -5),
    ("0b-1", -1),
    ("-0b-1", "-0b-1"),
    ("+0b1", 1),
    ("0b2", "0b2"),
    ("0xg", "0xg"),
    ("1_000", 1000),
    ("1__0", 10),
    ("_1", "_1"),
    ("1_", 1),
    ("0_7", 7),
    ("1:30", "1:30"),
    ("1:59:59", "1:59:59"),
    ("190:20:30", "190:20:30"),
    ("-1:30", "-1:30"),
    ("1:30.5", "1:30.5"),
    ("9223372036854775807", 9223372036854775807),
    ("9223372036854775808", 9223372036854776000),
    ("-9223372036854775808", -9223372036854775808),
    ("-9223372036854775809", -9223372036854776000),
    ("18446744073709551615", 18446744073709552000),
    ("18446744073709551616", 18446744073709552000),
    ("+18446744073709551615", 18446744073709552000),
    ("1.5", 1.5),
    ("1.", 1),
    (".5", 0.5),
    ("+.5", 0.5),
    ("-.5", -0.5),
    ("1e3", 1000),
    ("1E3", 1000),
    ("1e+3", 1000),
    ("1e-3", 0.001),
    ("1.5e300", 1.5e300),
    ("1e400", "1e400"),
    ("1e21", 1e21),
    ("1e20", 100000000000000000000),
    ("123456789012345678901234567890", 1.2345678901234568e29),
    ("._5", "._5"),
    ("1._5", 1.5),
    (".", "."),
    ("..", ".."),
    (".5.", ".5."),
    ("+", "+"),
    ("+-1", "+-1"),
    (".e3", ".e3"),
    ("1e", "1e"),
    ("0.0", 0),
    ("-0.0", 0),
    ("-0", 0),
    ("1.0", 1),
    ("100.0", 100),
    ("3.14159265358979", 3.14159265358979),
    ("y", True),
    ("Y", True),
    ("yes", True),
    ("Yes", True),
    ("yEs", "yEs"),
    ("n", False),
    ("no", False),
    ("on", True),
    ("ON", True),
    ("off", False),
    ("true", True),
    ("TRUE", True),
    ("tRUE", "tRUE"),
    ("false", False),
    ("null", None),
    ("Null", None),
    ("NULL", None),
    ("nULL", "nULL"),
    ("~", None),
    ("~~", "~~"),
    (".iNf", ".iNf"),
    ("2026-01-02", "2026-01-02"),
    ("2026-1-2", "2026-1-2"),
    ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    ("2026-01-02 03:04:05", "2026-01-02 03:04:05"),
    ("2001-12-14 21:59:43.10 -5", "2001-12-14 21:59:43.10 -5"),
    ("<<", "<<"),
    ("=", "="),
    ("!!str 1", "1"),
    ("!!str true", "true"),
    ("!!int '2'", 2),
    ('!!int "0x10"', 16),
    ("!!float 1", 1),
    ("!!float 1.5", 1.5),
    ("!!bool yes", True),
    ('!!bool "true"', True),
    ("!!null ''", None),
    ("!!timestamp 2026-01-02", "2026-01-02"),
    ("!!binary aGk=", "hi"),
    ("!!set {a, b}", {"a": None, "b": None}),
    ("!!map {a: b}", {"a": "b"}),
    ("!!omap [a: b]", [{"a": "b"}]),
    ("!!seq [a]", ["a"]),
    ("!!python/name:os.system x", "x"),
    ("!foo bar", "bar"),
    ("! 12", "12"),
    ('! "12"', "12"),
    ("'1'", "1"),
    ('"1"', "1"),
    ('"null"', "null"),
    ("'~'", "~"),
    ("''", ""),
    ("|\n  1", "1\n"),
    (">\n  a b", "a b\n"),
    ("[1, 2.5, yes, ~]", [1, 2.5, True, None]),
    (
        "{1: a, true: b, 1.5: c, 1e3: d, 1e6: e, 0x10: f, 2026-01-02: g}",
        {"1": "a", "1.5": "c", "1000": "d", "16": "f", "1e+06": "e", "2026-01-02": "g", "true": "b"},
    ),
    ("{1e30: a}", {"1e+30": "a"}),
    ("{1e-7: a}", {"1e-07": "a"}),
    ("{123456.789: a}", {"123456.79": "a"}),
    ("{16777217.0: a}", {"1.6777216e+07": "a"}),
    ("{1e300: a}", {".inf": "a"}),
    ("{.inf: a}", {".inf": "a"}),
    ("{a: 1, a: 2}", {"a": 2}),
    ('{1: 1, "1": 2}', {"1": 2}),
    ('"\\xff"', "ÿ"),
    ('"\\u00e9 \\U0001F600"', "é 😀"),
    ("é", "é"),
    ("1e1_0", 10000000000),
    ("0x_1", 1),
    ("0x", "0x"),
    ("0b", "0b"),
    ("0o", "0o"),
    ("0o8", "0o8"),
    ("1 000", "1 000"),
    ("1,000", "1,000"),
    ("0123456789", 123456789),
    ("0777777777777777777777", 9223372036854775807),
    ("1777777777777777777777", 1.7777777777777778e21),
    ("0xffffffffffffffff", 18446744073709552000),
    ("0xffffffffffffffffff", "0xffffffffffffffffff"),
    ("-0xffffffffffffffff", "-0xffffffffffffffff"),
    ("Infinity", "Infinity"),
    ("inf", "inf"),
    ("NaN", "NaN"),
    ("0x1p3", "0x1p3"),
    ("0x1.8p1", "0x1.8p1"),
    ("1f", "1f"),
    ("٣", "٣"),
    ("１", "１"),
]
DOCUMENTS: list[tuple[str, Any, list[str]]] = [
    # A merge is applied at its position.
    ("a: &x {b: 1}\nc:\n  b: 4\n  <<: *x", {"a": {"b": 1}, "c": {"b": 1}}, ['line 1: key "b" already set in map']),
    ("a: &x {b: 1}\nc:\n  <<: *x\n  b: 4", {"a": {"b": 1}, "c": {"b": 4}}, ['line 4: key "b" already set in map']),
    (
        "a: {x: &x {b: 1}, z: &z {b: 2, f: 3}}\nc:\n  <<: [*z, *x]",
        {"a": {"x": {"b": 1}, "z": {"b": 2, "f": 3}}, "c": {"b": 2, "f": 3}},
        ['line 1: key "b" already set in map'],
    ),
    ("c:\n  '<<': {a: 1}", {"c": {"<<": {"a": 1}}}, []),
    ("c:\n  !!merge <<: {a: 1}", {"c": {"a": 1}}, []),
    (
        '{1: a, 1: b, true: c, true: d, 1.5: e, 1.5: f, "1": g}',
        {"1": "g", "true": "d", "1.5": "f"},
        [
            "line 1: key 1 already set in map",
            "line 1: key true already set in map",
            "line 1: key 1.5 already set in map",
        ],
    ),
    ("a: 1\n---\nb: 2", {"a": 1}, []),
    ("a: 1\n---\n{", {"a": 1}, []),
    ("", None, []),
    ("--- \na: b\n...\n", {"a": "b"}, []),
    ("- |\n  two\n  lines\n- >\n  folded\n  text\n", ["two\nlines\n", "folded text\n"], []),
    ("[[], {}, [{}]]", [[], {}, [{}]], []),
]
ERRORS = [
    ("-", "yaml: block sequence entries are not allowed in this context"),
    (".nan", "json: unsupported value: NaN"),
    (".NaN", "json: unsupported value: NaN"),
    (".inf", "json: unsupported value: +Inf"),
    ("-.inf", "json: unsupported value: -Inf"),
    ("+.inf", "json: unsupported value: +Inf"),
    ("!!int 1.5", "yaml: cannot decode !!float `1.5` as a !!int"),
    ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
    ("!!float x", "yaml: cannot decode !!str `x` as a !!float"),
    ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
    ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
    ("!!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
    ('!!binary "!!"', "yaml: !!binary value contains invalid base64 data"),
    ("!!binary aG k=", "yaml: !!binary value contains invalid base64 data"),
    ("{~: a}", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
    ("@x", "yaml: found character that cannot start any token"),
    ("`x", "yaml: found character that cannot start any token"),
    ("%x", "yaml: found character that cannot start any token"),
    ("a: b: c", "yaml: mapping values are not allowed in this context"),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_value_is_read_as_by_kube_apiserver(text: str, value: Any) -> None:
    found = read_first(f"v: {text}\n".replace("\n  ", "\n    ") if text[:1] in "|>" else f"v: {text}\n").value["v"]
    if isinstance(value, float | int) and not isinstance(value, bool) and abs(value) > 2**53:
        assert math.isclose(found, value, rel_tol=1e-12)
    else:
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("text", "value", "repeated"), DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_document_is_read_as_by_kube_apiserver(text: str, value: Any, repeated: list[str]) -> None:
    found = read_first(text)
    assert (found.value, list(found.repeated)) == (value, repeated)


@pytest.mark.parametrize(("text", "why"), ERRORS, ids=[text for text, _ in ERRORS])
def test_error_is_that_of_kube_apiserver(text: str, why: str) -> None:
    with pytest.raises(YamlError) as refused:
        read_first(f"v: {text}\n")
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:\n  b: [", "yaml: line 2: did not find expected node content"),
        ("a:\n  b: 'x\n", "yaml: line 3: found unexpected end of stream"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("? {a: b}\n: c", "yaml: invalid map key: map[interface {}]interface {}{…}"),
        ("<<: 2", "yaml: map merge requires map or sequence of maps as the value"),
        ("<<: [2]", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: \x07", "yaml: control characters are not allowed"),
        ("[" * 50_000, f"yaml: exceeded max depth of {DEEPEST}"),
        ("- " * 50_000, f"yaml: exceeded max depth of {DEEPEST}"),
        ("{a: " * 50_000, f"yaml: exceeded max depth of {DEEPEST}"),
        (f"[{'a,' * MOST_EVENTS}]", f"yaml: document has more than {MOST_EVENTS} elements"),
        ("- " + "x" * LARGEST, "yaml: document is too large"),
    ],
    ids=range(13),
)
def test_malformed_or_excessive_document_is_refused(text: str, why: str) -> None:
    with pytest.raises(YamlError) as refused:
        read_first(text)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    "text", [":59" * 400_000, "9" * 1_200_000, "0." + "9" * 1_200_000, "0" * 1_200_000 + "9", "1e" + "9" * 900_000]
)
def test_long_number_costs_no_more_than_its_length(text: str) -> None:
    """Python's int() would take a minute for some of these numbers, and reject others."""
    found = read_first(f"1{text}").value
    assert found == f"1{text}" or isinstance(found, float)


@pytest.mark.parametrize("form", ["lists", "merges"])
def test_expansion_of_aliases_is_limited(form: str) -> None:
    if form == "lists":
        levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
        text = "\n".join(['a0: &a0 "lol"', *levels])
    else:
        keys = ", ".join(f"k{i}: v" for i in range(1000))
        text = "\n".join([f"a0: &a0 {{{keys}}}", *(f"a{i}: {{<<: *a0, x: {i}}}" for i in range(1000))])
    tracemalloc.start()
    try:
        with pytest.raises(YamlError, match="excessive aliasing"):
            read_first(text)
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


def test_documents_of_a_stream_are_read_with_their_line_numbers() -> None:
    found = list(read_all("# c\na: 1\n---\n\nb: 2\n---\n# none\n"))
    assert [(each.value, each.line) for each in found] == [({"a": 1}, 2), ({"b": 2}, 5), (None, 8)]
