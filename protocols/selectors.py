"""Label and field selectors: the query-string grammar, LabelSelector objects and plain maps, compiled for matching.

Source: apimachinery pkg/labels/selector.go, pkg/fields/selector.go and metav1.LabelSelectorAsSelector. Deliberate
differences: a parse error names the column; "==" becomes "="; the selector that matches nothing has a query form
(upstream's is "", which a server reads as everything); a field selector's term needs a field name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct

from kcm.protocols.integers import parse_int

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class Operator(StrEnum):
    """Operator of a requirement, spelled as in the query string."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


class Requirement(Struct, frozen=True):
    """Condition on one label. values: sorted and distinct; empty for EXISTS and DOES_NOT_EXIST."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether the labels meet the requirement.

        If the label is missing, NOT_IN, NOT_EQUALS and DOES_NOT_EXIST are met. > and < compare 64-bit integers.
        """
        value = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.IN:
                return value in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                number, bound = parse_int(value), parse_int(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


class LabelSelector(Struct, frozen=True):
    """Label selector: requirements that must all be met.

    Immutable and hashable; without requirements it matches everything.

    str() returns the query form, requirements sorted by key. Parsing this text returns a selector that matches the same
    labels, provided that keys and values are valid (map_selector does not check them).
    """

    requirements: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Report whether the selector has no requirements and so matches everything."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 (called for every pod of a sync; all() takes twice as long)
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector((Requirement("nothing", Operator.EXISTS), Requirement("nothing", Operator.DOES_NOT_EXIST)))


def label_key_problem(key: str) -> str | None:
    """Return the reason why a label's (or annotation's) key is invalid, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return "the part before '/' must be a DNS subdomain of at most 253 characters"
    if len(name) > 63 or not _NAME.fullmatch(name):
        return "a key's name is 1 to 63 letters, digits, '-', '_' or '.', and begins and ends with a letter or digit"
    return None


def label_value_problem(value: str) -> str | None:
    """Return the reason why a label's value is invalid, or None."""
    if len(value) > 63 or (value and not _NAME.fullmatch(value)):
        return "a value is at most 63 letters, digits, '-', '_' or '.', and begins and ends with a letter or digit"
    return None


def requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """Return a validated requirement. Raises ValueError on an invalid key or value, or a wrong number of values."""
    problem = label_key_problem(key)
    if problem:
        raise ValueError(f"invalid label key {key!r}: {problem}")
    chosen = tuple(sorted(set(values)))
    for value in chosen:
        problem = label_value_problem(value)
        if problem:
            raise ValueError(f"invalid value {value!r} of label {key}: {problem}")
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not chosen:
                raise ValueError(f"label {key}: {operator} needs at least one value")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if chosen:
                raise ValueError(f"label {key}: Exists and DoesNotExist take no values, got {', '.join(chosen)}")
        case _:
            if len(chosen) != 1:
                raise ValueError(f"label {key}: {operator} needs exactly one value, got {len(chosen)}")
            if operator in (Operator.GREATER_THAN, Operator.LESS_THAN) and parse_int(chosen[0]) is None:
                raise ValueError(f"label {key}: {operator} needs a 64-bit integer, got {chosen[0]!r}")
    return Requirement(key, operator, chosen)


def map_selector(labels: Mapping[str, str] | None) -> LabelSelector:
    """Return the selector of a ReplicationController or Service: labels must contain every pair.

    None and {} match everything, like upstream's SelectorFromSet; controllers for which an empty map selects nothing
    check .empty. Pairs are not validated: an invalid pair matches no label.
    """
    pairs = sorted((labels or {}).items())
    return LabelSelector(tuple(Requirement(key, Operator.EQUALS, (value,)) for key, value in pairs))


_EXPRESSION_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def label_selector_of(value: Mapping[str, Any] | None) -> LabelSelector:
    """Compile a LabelSelector object ({matchLabels, matchExpressions}). None matches nothing, {} everything.

    Raises ValueError on an unknown operator, on a wrong number of values, on invalid keys and values, and on a value
    that is not a LabelSelector.
    """
    if value is None:
        return NOTHING
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise ValueError("not a label selector: matchLabels is a map and matchExpressions a list")
    requirements = [_equals(_text(key), _text(label)) for key, label in labels.items()]
    for expression in expressions:
        if not isinstance(expression, dict):
            raise ValueError(f"not a label selector: {expression!r} in matchExpressions")
        operator = _EXPRESSION_OPERATORS.get(_text(expression.get("operator") or ""))
        if operator is None:
            raise ValueError(f"{expression.get('operator') or ''!r} is not a valid label selector operator")
        values = expression.get("values") or []
        if not isinstance(values, list):
            raise ValueError(f"not a label selector: values is a list, got {values!r}")
        requirements.append(requirement(_text(expression.get("key") or ""), operator, map(_text, values)))
    return _selector(requirements)


@lru_cache(maxsize=4096)  # each sync of its owner compiles the selector again
def _equals(key: str, label: str) -> Requirement:
    return requirement(key, Operator.EQUALS, [label])


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the query form, as in `?labelSelector=` and `kubectl -l`. "" matches everything.

    app=web, app==web, app!=web, tier in (a,b), tier notin (a), app, !app, size>3, size<3; joined by commas. An
    omitted value is "". Raises ValueError that names the column of the first error.
    """
    return _selector(_LabelParser(text).parse())


def _selector(requirements: list[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"not a label selector: expected a string, got {value!r}")
    return value


class _Token(NamedTuple):
    text: str  # "" at the end
    column: int  # from 1
    word: bool  # an identifier rather than a symbol


class _LabelParser:
    """Recursive descent over the tokens of one selector. "in" is a key or an operator, depending on its position."""

    _TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+)|$)")
    _BINARY: Mapping[str, Operator] = {
        "=": Operator.EQUALS,
        "==": Operator.EQUALS,
        "!=": Operator.NOT_EQUALS,
        "in": Operator.IN,
        "notin": Operator.NOT_IN,
        ">": Operator.GREATER_THAN,
        "<": Operator.LESS_THAN,
    }

    def __init__(self, text: str) -> None:
        self._source = text
        self._tokens: list[_Token] = []
        for found in self._TOKEN.finditer(text):
            group = found.lastindex or 0
            self._tokens.append(_Token(found[group] if group else "", found.start(group) + 1, group == 2))
            if not group:
                break
        self._at = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if not self._peek().text:
            return requirements
        while True:
            requirements.append(self._requirement())
            token = self._next()
            if not token.text:
                return requirements
            if token.text != ",":
                self._fail("',' or the end", token)

    def _requirement(self) -> Requirement:
        start = self._peek()
        negated = start.text == "!"
        if negated:
            self._next()
        key = self._next()
        if not key.word:
            self._fail("a label key", key)
        if negated:
            return self._checked(start, key.text, Operator.DOES_NOT_EXIST, [])
        if self._peek().text in ("", ","):
            return self._checked(start, key.text, Operator.EXISTS, [])
        token = self._next()
        operator = self._BINARY.get(token.text)
        if operator is None:
            self._fail("one of =, ==, !=, in, notin, >, <", token)
        values = self._values() if operator in (Operator.IN, Operator.NOT_IN) else [self._value()]
        return self._checked(start, key.text, operator, values)

    def _checked(self, start: _Token, key: str, operator: Operator, values: list[str]) -> Requirement:
        try:
            return requirement(key, operator, values)
        except ValueError as err:
            raise ValueError(f"label selector {self._source!r}, column {start.column}: {err}") from None

    def _value(self) -> str:
        """Parse a value; "" if a comma, a parenthesis or the end follows immediately."""
        token = self._peek()
        if token.word:
            return self._next().text
        if token.text not in ("", ",", ")"):
            self._fail("a value", token)
        return ""

    def _values(self) -> list[str]:
        token = self._next()
        if token.text != "(":
            self._fail("'('", token)
        values = [self._value()]
        while (token := self._next()).text == ",":
            values.append(self._value())
        if token.text != ")":
            self._fail("',' or ')'", token)
        return values

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        if token.text:
            self._at += 1
        return token

    def _fail(self, expected: str, token: _Token) -> NoReturn:
        found = repr(token.text) if token.text else "the end"
        raise ValueError(
            f"label selector {self._source!r}, column {token.column}: expected {expected}, found {found}",
        )


class FieldRequirement(Struct, frozen=True):
    """Requirement that a field has this value, or does not if `negated`. A missing field has the value ""."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


class FieldSelector(Struct, frozen=True):
    """Field selector: requirements that must all be met. str() returns the query form.

    The resource defines which fields it supports.
    """

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Report whether the selector has no requirements and so matches everything."""
        return not self.requirements

    def matches(self, get: Callable[[str], str]) -> bool:
        """Report whether an object matches. get: returns the value of a field path ("spec.nodeName") as text, or ""."""
        return all((get(each.field) == each.value) is not each.negated for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_FIELD_TERM = re.compile(r"((?:\\.|[^,\\])*)(?:,|$)", re.DOTALL)
_FIELD_OPERATOR = re.compile(r"!=|==|=")


def parse_field_selector(text: str) -> FieldSelector:
    r"""Parse `?fieldSelector=`: field=value, field==value or field!=value, joined by commas. "" matches everything.

    In a value, `\`, `,` and `=` are escaped by a backslash. Raises ValueError on a malformed term.
    """
    requirements = []
    position = 0
    while position < len(text):
        found = _FIELD_TERM.match(text, position)
        if found is None:
            raise ValueError(f"field selector {text!r}: unescaped backslash at the end")
        position = found.end()
        if found[1]:
            requirements.append(_field_requirement(found[1], text))
    return FieldSelector(tuple(sorted(requirements, key=lambda each: (each.field, each.value, each.negated))))


def _field_requirement(term: str, source: str) -> FieldRequirement:
    operator = _FIELD_OPERATOR.search(term)
    if operator is None or operator.start() == 0:
        raise ValueError(f"field selector {source!r}: expected field=value or field!=value, found {term!r}")
    field, value = term[: operator.start()], term[operator.end() :]
    bare = re.sub(r"\\[\\,=]", "", value)
    if "\\" in bare or "=" in bare:
        raise ValueError(f"field selector {source!r}: '\\', ',' and '=' in a value must be escaped by '\\': {term!r}")
    return FieldRequirement(field, re.sub(r"\\([\\,=])", r"\1", value), operator[0] == "!=")
