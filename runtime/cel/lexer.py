"""Lexer: splits an expression into tokens.

Source: cel-go parser/gen/CEL.g4, parser/unescape.go.
"""

from __future__ import annotations

import re

from msgspec import Struct

from kcm.runtime.cel.errors import Issue

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_TOKEN = re.compile(
    rf"""(?P<space>[\t \n\r\f]+|//[^\n]*)
    |(?P<string>[bB]?[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"[^"\n\r]*"|'[^'\n\r]*')
       |[bB]?(?:\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''
       |"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|\d+[uU])
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<ident>[a-zA-Z_][a-zA-Z0-9_]*)
    |(?P<escaped>`[a-zA-Z0-9_.\-/\ ]+`)
    |(?P<op>==|!=|<=|>=|&&|\|\||[-<>!?:.,+*/%()\[\]{{}}])""",
    re.VERBOSE,
)
KEYWORDS = frozenset({"true", "false", "null", "in"})
SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "?": "?", "`": "`",
}  # fmt: skip


class Token(Struct, frozen=True):
    """One token. kind: ident, escaped, int, uint, float, string, end, or the text of an operator or keyword."""

    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        return "<EOF>" if self.kind == "end" else self.text


def tokens(expression: str) -> tuple[list[Token], list[Issue]]:
    """Return the tokens of an expression, and an issue for each unreadable part.

    Unreadable parts are skipped, so that further errors around them are found.
    """
    found: list[Token] = []
    issues: list[Issue] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            unreadable = _unreadable(expression, at)
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{unreadable}'"))
            at += len(unreadable)
            continue
        kind, text = str(match.lastgroup), match.group()
        if kind != "space":
            found.append(Token(text if kind == "op" or text in KEYWORDS else kind, text, at))
        at = match.end()
    found.append(Token("end", "", len(expression)))
    return found, issues


def _unreadable(expression: str, at: int) -> str:
    """Return the unreadable text: the longest beginning of a token, and the character after it."""
    match expression[at]:
        case '"' | "'":
            end = _STRING_PREFIX.match(expression, at + 1)
        case "`":
            end = re.compile(r"[a-zA-Z0-9_.\-/ ]*").match(expression, at + 1)
        case "=" | "&" | "|":
            return expression[at : at + 2]
        case _:
            return expression[at]
    assert end is not None
    return expression[at : end.end() + 1]


_HEX = "[0-9a-fA-F]"
_STRING_PREFIX = re.compile(
    rf"(?:{_ESCAPE}|[^\\\n\r])*(?:\\(?:[xX]{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-3][0-7]?)?)?"
)
"""The valid beginning of a string that is not closed, or that has an invalid escape."""


def unescaped(text: str) -> str | bytes:
    """Return the value of a string literal. Raises ValueError for an invalid escape."""
    prefix = re.match(r"[bBrR]*", text)
    marks = prefix.group().lower() if prefix is not None else ""
    body = text[len(marks) :]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    if "b" in marks:
        if "r" in marks:
            return body.encode()
        return b"".join(_bytes_piece(piece) for piece in re.findall(rf"{_ESCAPE}|[\s\S]", body))
    if "r" in marks:
        return body
    return re.sub(_ESCAPE, lambda match: _character(match.group()), body) if "\\" in body else body


def _character(escape: str) -> str:
    letter = escape[1]
    if letter in SIMPLE_ESCAPES:
        return SIMPLE_ESCAPES[letter]
    number = int(*((escape[2:], 16) if letter in "xXuU" else (escape[1:], 8)))
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _bytes_piece(piece: str) -> bytes:
    if len(piece) > 1 and piece[1] in "uU":
        raise ValueError("unable to unescape string")
    if len(piece) > 1 and piece[1] in "xX01234567":
        return bytes([int(*((piece[2:], 16) if piece[1] in "xX" else (piece[1:], 8)))])
    return (_character(piece) if len(piece) > 1 else piece).encode()
