"""YAML in the block style in which kubectl and kubeadm write kubeconfigs, read without PyYAML.

At each start PyYAML would take 20 ms and 1 MB for such a file. Other forms, and malformed files, are left to PyYAML.
"""

from __future__ import annotations

import re
from typing import Any

_TEXT = re.compile(rb"[\n -~]*")
_ENTRY = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9_./-]{0,99}):(?: +(?P<value>\S.*))?")
_PLAIN = re.compile(r"-{0,2}[A-Za-z/](?:[A-Za-z0-9_./:@+=-]*[A-Za-z0-9_./@+=-])?")
_QUOTED = re.compile(r'"[ !#-\[\]-~]*"')  # printable ASCII without escapes
_WORDS = {"null": None, "true": True, "false": False}
_OTHER_WORDS = frozenset(("yes", "no", "on", "off", *_WORDS))  # which have other types than strings, in several cases
_MOST_LEVELS = 20


class _OtherFormError(Exception):
    pass


def read_block_yaml(text: bytes) -> dict[str, Any] | None:
    """Return the mapping that a text contains; None if it is not of this form. Equals what PyYAML's safe_load returns.

    Its keys are words without quotes, and its values words without spaces, strings in double quotes without escapes,
    true, false, null, {}, [], mappings and lists. Lists contain no lists.
    """
    if not _TEXT.fullmatch(text):
        return None
    try:
        return _Block(text.decode("ascii")).mapping()
    except _OtherFormError:
        return None


class _Block:
    """Lines of a text, as (indentation, content), without blank lines and comments."""

    def __init__(self, text: str) -> None:
        self._lines = [
            (len(line) - len(content), content.rstrip(" "))
            for line in text.split("\n")
            if (content := line.lstrip(" ")) and not content.startswith("#")
        ]
        self._at = 0

    def mapping(self) -> dict[str, Any]:
        """Return the whole text as a mapping. Raises _OtherFormError."""
        if self._indent() != 0:
            raise _OtherFormError
        found = self._mapping(0, _MOST_LEVELS)
        if self._at != len(self._lines):
            raise _OtherFormError
        return found

    def _indent(self) -> int:
        """Return the indentation of the next line; -1 at the end."""
        return self._lines[self._at][0] if self._at < len(self._lines) else -1

    def _mapping(self, indent: int, levels: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._indent() == indent:
            entry = _ENTRY.fullmatch(self._lines[self._at][1])
            if entry is None or entry["key"] in found or entry["key"].lower() in _OTHER_WORDS or not levels:
                raise _OtherFormError
            self._at += 1
            value = entry["value"]
            found[entry["key"]] = self._nested(indent, levels - 1) if value is None else _scalar(value)
        return found

    def _nested(self, indent: int, levels: int) -> Any:
        """Return the value in the lines after a key with this indentation: a mapping, a list, or None without lines."""
        inner = self._indent()
        if inner < indent:
            return None
        if self._lines[self._at][1].startswith("- "):
            return self._list(inner, levels)
        return self._mapping(inner, levels) if inner > indent else None

    def _list(self, indent: int, levels: int) -> list[Any]:
        found: list[Any] = []
        while self._indent() == indent and self._lines[self._at][1].startswith("- "):
            line = self._lines[self._at][1]
            content = line[1:].lstrip(" ")
            if _ENTRY.fullmatch(content):  # the first line of a mapping
                inner = indent + len(line) - len(content)
                self._lines[self._at] = inner, content
                found.append(self._mapping(inner, levels))
            else:
                self._at += 1
                found.append(_scalar(content))
        return found


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text == "{}":
        return {}
    if text == "[]":
        return []
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    if _PLAIN.fullmatch(text) and text.lower() not in _OTHER_WORDS:
        return text
    raise _OtherFormError
