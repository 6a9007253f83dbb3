"""Label and field selectors, compared with a table of cases and with a plain evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    Operator,
    label_key_problem,
    label_selector_of,
    label_value_problem,
    map_selector,
    parse_field_selector,
    parse_label_selector,
)

WEB = {"app": "web", "tier": "front", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "canonical", "matches_web"),
    [
        ("", "", True),
        ("   ", "", True),
        ("app=web", "app=web", True),
        ("app==web", "app=web", True),
        (" app = web ", "app=web", True),
        ("app=db", "app=db", False),
        ("nope=web", "nope=web", False),
        ("app!=db", "app!=db", True),
        ("app!=web", "app!=web", False),
        ("nope!=x", "nope!=x", True),
        ("app in (web,db)", "app in (db,web)", True),
        ("app in(web)", "app in (web)", True),
        ("app in (db, cache)", "app in (cache,db)", False),
        ("app in (web,web)", "app in (web)", True),
        ("app notin (web)", "app notin (web)", False),
        ("app notin (db)", "app notin (db)", True),
        ("nope notin (db)", "nope notin (db)", True),
        ("app", "app", True),
        ("nope", "nope", False),
        ("!nope", "!nope", True),
        ("! app", "!app", False),
        ("size>4", "size>4", True),
        ("size>5", "size>5", False),
        ("size<6", "size<6", True),
        ("size < 5", "size<5", False),
        ("app>1", "app>1", False),  # not a number
        ("nope<1", "nope<1", False),
        ("empty=", "empty=", True),
        ("app=", "app=", False),
        ("empty in ()", "empty in ()", True),
        ("empty in (,)", "empty in ()", True),
        ("empty in (a,,b)", "empty in (,a,b)", True),
        ("app in (a,)", "app in (,a)", False),
        ("tier=front,app=web", "app=web,tier=front", True),
        ("app=web,tier=back", "app=web,tier=back", False),
        ("app=,tier", "app=,tier", False),
        ("in in (in,notin)", "in in (in,notin)", False),
        ("app notin (in)", "app notin (in)", True),
        ("app=in", "app=in", False),
        ("example.com/app!=x", "example.com/app!=x", True),
    ],
)
def test_the_query_form_of_a_label_selector(text: str, canonical: str, matches_web: bool) -> None:
    selector = parse_label_selector(text)
    assert str(selector) == canonical
    assert selector.matches(WEB) is matches_web
    assert selector.empty is (canonical == "")
    assert parse_label_selector(canonical) == selector


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        (",app", 1, "expected a label key, found ','"),
        ("app,", 5, "expected a label key, found the end"),
        ("app,,tier", 5, "expected a label key, found ','"),
        ("!", 2, "expected a label key, found the end"),
        ("=web", 1, "expected a label key, found '='"),
        ("app web", 5, "expected one of =, ==, !=, in, notin, >, <, found 'web'"),
        ("app!web", 4, "found '!'"),
        ("app(web)", 4, "found '('"),
        ("!app=web", 5, "expected ',' or the end, found '='"),
        ("app=web tier=x", 9, "expected ',' or the end, found 'tier'"),
        ("app=web)", 8, "expected ',' or the end, found ')'"),
        ("app=a=b", 6, "expected ',' or the end, found '='"),
        ("app===web", 6, "expected a value, found '='"),
        ("app=(web)", 5, "expected a value, found '('"),
        ("app=!web", 5, "expected a value, found '!'"),
        ("app in web", 8, "expected '(', found 'web'"),
        ("app in", 7, "expected '(', found the end"),
        ("app in (web", 12, "expected ',' or ')', found the end"),
        ("app in (web db)", 13, "expected ',' or ')', found 'db'"),
        ("app in (=)", 9, "expected a value, found '='"),
        ("tier, a/b/c=x", 7, "invalid label key 'a/b/c'"),
        ("-app", 1, "invalid label key '-app'"),
        ("app=-web", 1, "invalid value '-web' of label app"),
        ("app in (ok,not_)", 1, "invalid value 'not_' of label app"),
        ("size>big", 1, "> needs a 64-bit integer, got 'big'"),
        ("size<", 1, "< needs a 64-bit integer, got ''"),
        ("size>9223372036854775808", 1, "> needs a 64-bit integer"),
    ],
)
def test_invalid_label_selector_is_refused_with_the_column(text: str, column: int, reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_label_selector(text)
    assert f"column {column}: " in str(refused.value)
    assert reason in str(refused.value)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("A-b_c.9", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("-a", False),
        ("a.", False),
        ("a b", False),
        ("ä", False),
        ("a\n", False),
        ("example.com/a", True),
        ("Example.com/a", False),
        ("example..com/a", False),
        ("/a", False),
        ("example.com/", False),
        ("a/b/c", False),
        (f"{'a' * 253}/b", True),
        (f"{'a' * 254}/b", False),
    ],
)
def test_which_label_keys_are_valid(key: str, valid: bool) -> None:
    assert (label_key_problem(key) is None) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("", True), ("a", True), ("1.2_3-x", True), ("a" * 63, True), ("a" * 64, False), ("-", False), ("a/b", False)],
)
def test_which_label_values_are_valid(value: str, valid: bool) -> None:
    assert (label_value_problem(value) is None) is valid


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("value", "canonical", "matches_web"),
    [
        ({}, "", True),
        ({"matchLabels": {}, "matchExpressions": []}, "", True),
        ({"matchLabels": None, "matchExpressions": None}, "", True),
        ({"matchLabels": {"tier": "front", "app": "web"}}, "app=web,tier=front", True),
        ({"matchLabels": {"app": "db"}}, "app=db", False),
        ({"matchExpressions": [expression("app", "In", "web", "db")]}, "app in (db,web)", True),
        ({"matchExpressions": [expression("app", "NotIn", "web")]}, "app notin (web)", False),
        ({"matchExpressions": [expression("nope", "NotIn", "web")]}, "nope notin (web)", True),
        ({"matchExpressions": [expression("app", "Exists")]}, "app", True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists", "values": None}]}, "app", True),
        ({"matchExpressions": [expression("app", "DoesNotExist")]}, "!app", False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [expression("size", "Exists")]}, "app=web,size", True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [expression("app", "NotIn", "web")]}, None, False),
    ],
)
def test_label_selector_objects(value: dict[str, Any], canonical: str | None, matches_web: bool) -> None:
    selector = label_selector_of(value)
    assert selector.matches(WEB) is matches_web
    if canonical is not None:
        assert str(selector) == canonical
        assert selector.empty is (canonical == "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"matchExpressions": [expression("app", "in", "web")]}, "'in' is not a valid label selector operator"),
        ({"matchExpressions": [expression("app", "Gt", "1")]}, "'Gt' is not a valid label selector operator"),
        ({"matchExpressions": [{"key": "app"}]}, "'' is not a valid label selector operator"),
        ({"matchExpressions": [expression("app", "In")]}, "needs at least one value"),
        ({"matchExpressions": [expression("app", "NotIn")]}, "needs at least one value"),
        ({"matchExpressions": [expression("app", "Exists", "web")]}, "take no values"),
        ({"matchExpressions": [expression("app", "DoesNotExist", "web")]}, "take no values"),
        ({"matchExpressions": [expression("", "Exists")]}, "invalid label key ''"),
        ({"matchExpressions": [expression("app", "In", "a b")]}, "invalid value 'a b'"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "invalid label key ''"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": "web"}]}, "values is a list"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": [1]}]}, "expected a string, got 1"),
        ({"matchExpressions": [{"key": 5, "operator": "Exists"}]}, "expected a string, got 5"),
        ({"matchExpressions": [{"key": "app", "operator": ["In"]}]}, "expected a string"),
        ({"matchExpressions": ["app"]}, "'app' in matchExpressions"),
        ({"matchExpressions": {"app": "web"}}, "matchExpressions a list"),
        ({"matchLabels": ["app"]}, "matchLabels is a map"),
        ({"matchLabels": {"app": 5}}, "expected a string, got 5"),
        ({"matchLabels": {"a b": "x"}}, "invalid label key 'a b'"),
        ({"matchLabels": {"app": "x y"}}, "invalid value 'x y'"),
    ],
)
def test_an_invalid_label_selector_object_is_refused(value: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        label_selector_of(value)
    assert reason in str(refused.value)


@pytest.mark.parametrize("labels", [{}, WEB, {"nothing": "x"}])
def test_no_selector_matches_nothing_and_the_empty_one_everything(labels: dict[str, str]) -> None:
    assert label_selector_of(None) == NOTHING
    assert not NOTHING.matches(labels)
    assert not NOTHING.empty
    assert label_selector_of({}) == EVERYTHING
    assert EVERYTHING.matches(labels)


def test_the_query_form_of_nothing_selects_nothing() -> None:
    assert parse_label_selector(str(NOTHING)) == NOTHING


@pytest.mark.parametrize(
    ("pairs", "canonical", "matches_web"),
    [
        (None, "", True),
        ({}, "", True),
        ({"tier": "front", "app": "web"}, "app=web,tier=front", True),
        ({"app": "web", "nope": ""}, "app=web,nope=", False),
        ({"not a key": "x"}, "not a key=x", False),
    ],
)
def test_map_selectors(pairs: dict[str, str] | None, canonical: str, matches_web: bool) -> None:
    selector = map_selector(pairs)
    assert str(selector) == canonical
    assert selector.matches(WEB) is matches_web
    assert selector.empty is (canonical == "")


# Plain evaluation of selectors, without the code under test.
KEYS = st.sampled_from(["a", "b", "x.y/c"])
LABEL_VALUES = st.sampled_from(["", "1", "2", "v", "10"])
LABELS = st.dictionaries(KEYS, LABEL_VALUES)
Term = tuple[str, str, list[str]]
EXPRESSIONS: st.SearchStrategy[Term] = st.one_of(
    st.tuples(KEYS, st.sampled_from(["In", "NotIn"]), st.lists(LABEL_VALUES, min_size=1, max_size=3)),
    st.tuples(KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
)


def is_satisfied(term: Term, labels: Mapping[str, str]) -> bool:
    key, operator, values = term
    return {
        "In": key in labels and labels[key] in values,
        "NotIn": key not in labels or labels[key] not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[operator]


def in_query_form(term: Term) -> str:
    key, operator, values = term
    return {
        "In": f"{key} in ({', '.join(values)})",
        "NotIn": f"{key} notin({','.join(values)})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }[operator]


@given(LABELS, st.lists(EXPRESSIONS, max_size=4), LABELS)
def test_a_selector_matches_what_all_of_its_terms_match(
    match_labels: dict[str, str], terms: list[Term], labels: dict[str, str]
) -> None:
    expected = match_labels.items() <= labels.items() and all(is_satisfied(term, labels) for term in terms)
    compiled = label_selector_of(
        {"matchLabels": match_labels, "matchExpressions": [expression(key, op, *values) for key, op, values in terms]}
    )
    text = ",".join([f"{key}={value}" for key, value in match_labels.items()] + list(map(in_query_form, terms)))
    assert compiled.matches(labels) is expected
    assert parse_label_selector(text).matches(labels) is expected
    assert parse_label_selector(text) == compiled
    assert parse_label_selector(str(compiled)) == compiled
    assert hash(parse_label_selector(text)) == hash(compiled)


@given(st.integers(-3, 3), st.sampled_from(["<", ">"]), st.integers(0, 3))
def test_greater_and_less_compare_numbers(value: int, operator: str, bound: int) -> None:
    expected = value < bound if operator == "<" else value > bound
    assert parse_label_selector(f"n{operator}{bound}").matches({"n": str(value)}) is expected


@pytest.mark.parametrize(
    ("value", "less"),
    [("-9223372036854775808", True), ("-9223372036854775809", False), ("9" * 70, False), ("1_0", False), ("", False)],
)
def test_label_beyond_64_bits_is_neither_greater_nor_less(value: str, less: bool) -> None:
    assert parse_label_selector("n<1").matches({"n": value}) is less
    assert parse_label_selector("n>1").matches({"n": value}) is False


@given(st.text(alphabet="ab=!(),<> in", max_size=12))
def test_any_text_is_a_selector_or_a_value_error(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except ValueError:
        return
    assert parse_label_selector(str(selector)) == selector


def test_operators_are_written_as_the_query_string_writes_them() -> None:
    assert [
        requirement.operator for requirement in parse_label_selector("a=1,b!=1,c in (1),d notin (1)").requirements
    ] == [
        Operator.EQUALS,
        Operator.NOT_EQUALS,
        Operator.IN,
        Operator.NOT_IN,
    ]


POD = {"metadata.name": "web-1", "spec.nodeName": "n1", "status.phase": "Running", "odd": "a,b=c\\d"}


@pytest.mark.parametrize(
    ("text", "canonical", "matches_pod"),
    [
        ("", "", True),
        (",", "", True),
        ("spec.nodeName=n1", "spec.nodeName=n1", True),
        ("spec.nodeName==n1", "spec.nodeName=n1", True),
        ("spec.nodeName!=n1", "spec.nodeName!=n1", False),
        ("spec.nodeName=", "spec.nodeName=", False),
        ("spec.absent=", "spec.absent=", True),
        ("spec.nodeName!=", "spec.nodeName!=", True),
        ("status.phase=Running,spec.nodeName=n1", "spec.nodeName=n1,status.phase=Running", True),
        ("status.phase=Running,spec.nodeName=n2,", "spec.nodeName=n2,status.phase=Running", False),
        (r"odd=a\,b\=c\\d", r"odd=a\,b\=c\\d", True),
        (r"odd!=a\,b\=c\\d,metadata.name=web-1", r"metadata.name=web-1,odd!=a\,b\=c\\d", False),
        ("metadata.name=ünïcode", "metadata.name=ünïcode", False),
    ],
)
def test_field_selectors(text: str, canonical: str, matches_pod: bool) -> None:
    selector = parse_field_selector(text)
    assert str(selector) == canonical
    assert selector.matches(lambda field: POD.get(field, "")) is matches_pod
    assert selector.empty is (canonical == "")


@pytest.mark.parametrize("text", ["a", "=b", "!=b", "a=b,c", "a=b=c", "a=b\\", "a=\\x", "a=b,\\", "a===b", "a\\,b"])
def test_a_field_selector_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_field_selector(text)
    assert repr(text) in str(refused.value)


def test_a_field_selector_shows_its_requirements() -> None:
    [first, second] = parse_field_selector(r"b!=x\,y,a=1").requirements
    assert (first.field, first.value, first.negated) == ("a", "1", False)
    assert (second.field, second.value, second.negated) == ("b", "x,y", True)


@given(st.dictionaries(st.sampled_from(["a", "b.c"]), st.tuples(st.text(max_size=6), st.booleans())), st.data())
def test_any_field_value_survives_the_query_form(terms: dict[str, tuple[str, bool]], data: st.DataObject) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")

    text = ",".join(f"{field}{'!=' if negated else '='}{escaped(value)}" for field, (value, negated) in terms.items())
    selector = parse_field_selector(text)
    fields = {field: data.draw(st.sampled_from([value, "other"])) for field, (value, _) in terms.items()}
    expected = all((fields[field] != value) is negated for field, (value, negated) in terms.items())
    assert selector.matches(fields.__getitem__) is expected
    assert parse_field_selector(str(selector)) == selector


@given(st.text(alphabet="ab=!,\\.", max_size=10))
def test_any_text_is_a_field_selector_or_a_value_error(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except ValueError:
        return
    assert isinstance(selector, FieldSelector)
    assert parse_field_selector(str(selector)) == selector
