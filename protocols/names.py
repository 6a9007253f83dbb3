"""Validation of names, label keys and label values, with upstream's rules and error texts.

Each function returns the errors as texts, an empty list for a valid value.

Source: apimachinery pkg/api/validate/content/{dns,kube,path,errors}.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kcm.protocols.bounded_cache import bounded_cache

NameRule = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + "(\\." + _LABEL + ")*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_WILDCARD = "\\*\\." + _SUBDOMAIN
_wildcard = re.compile(_WILDCARD)
_label, _subdomain, _dns1035, _key = (re.compile(pattern) for pattern in (_LABEL, _SUBDOMAIN, _DNS1035, _KEY))

_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"
_KEY_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"{_ALPHANUMERIC_ENDS}"
)


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_many_bytes(most: int) -> str:
    # For labels; names are limited in characters.
    return f"must be no more than {most} bytes"


def too_many_characters(most: int) -> str:
    return f"must be no more than {most} characters"


def dns_label(value: str) -> list[str]:
    problems = [too_many_characters(63)] if len(value) > 63 else []
    if not _label.fullmatch(value):
        if _subdomain.fullmatch(value):
            problems.append("must not contain dots")
        else:
            rule = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                f"{_ALPHANUMERIC_ENDS}"
            )
            problems.append(_regex_error(rule, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain(value: str) -> list[str]:
    problems = [too_many_characters(253)] if len(value) > 253 else []
    if not _subdomain.fullmatch(value):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            f"{_ALPHANUMERIC_ENDS}"
        )
        problems.append(_regex_error(rule, _SUBDOMAIN, "example.com"))
    return problems


def wildcard_subdomain(value: str) -> list[str]:
    problems = [too_many_characters(253)] if len(value) > 253 else []
    if not _wildcard.fullmatch(value):
        rule = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
            "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        problems.append(_regex_error(rule, _WILDCARD, "*.example.com"))
    return problems


def dns1035_label(value: str) -> list[str]:
    problems = [too_many_characters(63)] if len(value) > 63 else []
    if not _dns1035.fullmatch(value):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        problems.append(_regex_error(rule, _DNS1035, "my-name", "abc-123"))
    return problems


def path_segment(value: str) -> list[str]:
    """Validate that a name can be a segment of a URL's path, which every kind requires in addition to its own rules."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def label_key(value: str) -> list[str]:
    return [] if _is_label_key(value) else _label_key_problems(value)


@bounded_cache(4096, longest=320)  # most writes contain the same few names
def _is_label_key(value: str) -> bool:
    return not _label_key_problems(value)


def _label_key_problems(value: str) -> list[str]:
    if len(value) <= 63 and _key.fullmatch(value):
        return []
    parts = value.split("/")
    if len(parts) > 2:
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_label_key_rule()} {hint}"]
    name, problems = parts[-1], []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        problems += [f"prefix part {problem}" for problem in dns_subdomain(parts[0]) if parts[0]]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_many_bytes(63)}")
    if not _key.fullmatch(name):
        problems.append(f"name part {_label_key_rule()}")
    return problems


def _label_key_rule() -> str:
    return _regex_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")


def label_value(value: str) -> list[str]:
    problems = [_too_many_bytes(63)] if len(value) > 63 else []
    if value and not _key.fullmatch(value):
        problems.append(_regex_error(_VALUE_RULE, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return problems
