"""Texts of the project that people read: docstrings, comments, log events, errors, flag help, names and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
COMMENT = re.compile(r"(?:^\s*|\s{2})# (.*)$")
FENCED = re.compile(r"^```.*?^```$|^ {4}[^\n]*$", re.MULTILINE | re.DOTALL)


class Kind(StrEnum):
    DOCSTRING = "docstring"
    COMMENT = "comment"
    LOG = "log"
    ERROR = "error"
    HELP = "help"
    PAGE = "page"
    VARIABLE = "variable"
    CLASS = "class"
    TEST = "test"
    FILE = "file"


class Text(NamedTuple):
    """name: of the function or class that a docstring belongs to, else ""."""

    kind: Kind
    line: int
    text: str
    name: str = ""


def texts_of(path: Path, source: str) -> Iterator[Text]:
    """Yield the texts of a Python file or a Markdown page. Raises SyntaxError."""
    if path.suffix == ".md":
        yield from page_texts(source)
        return
    yield Text(Kind.FILE, 1, path.stem)
    for number, line in enumerate(source.splitlines(), 1):
        if "# " in line and (found := COMMENT.search(line)):
            yield Text(Kind.COMMENT, number, found[1])
    left: list[ast.AST] = [ast.parse(source)]
    while left:  # ast.walk takes twice as long
        node = left.pop()
        if (texts := TEXTS.get(type(node))) is not None:
            yield from texts(node)
        for value in vars(node).values():
            if type(value) is list:
                left += [child for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST):
                left.append(value)


def _of_definition(node: ast.AST) -> Iterator[Text]:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
    name = getattr(node, "name", "")
    line = getattr(node, "lineno", 1)
    if doc := ast.get_docstring(node):
        yield Text(Kind.DOCSTRING, line, doc, name)
    if isinstance(node, ast.ClassDef) and not name.startswith("_"):
        yield Text(Kind.CLASS, line, name)
    if name.startswith("test_"):
        yield Text(Kind.TEST, line, name)


def _of_name(node: ast.AST) -> Iterator[Text]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield Text(Kind.VARIABLE, node.lineno, name)


def _of_call(node: ast.AST) -> Iterator[Text]:
    match node:
        case ast.Call(func=ast.Attribute(attr=attr, value=owner), args=[first, *_]) if attr in LOG_METHODS:
            if is_logger(owner) and (text := words_of(first)):
                yield Text(Kind.LOG, node.lineno, text)
        case ast.Call(func=ast.Name(id="flag"), args=[_, second, *_]):
            if text := words_of(second):
                yield Text(Kind.HELP, node.lineno, text)


def _of_raise(node: ast.AST) -> Iterator[Text]:
    match node:
        case ast.Raise(exc=ast.Call(args=[first, *_])):
            if text := words_of(first):
                yield Text(Kind.ERROR, node.lineno, text)


def _of_keyword(node: ast.AST) -> Iterator[Text]:
    match node:
        case ast.keyword(arg="help" | "description", value=value):
            if text := words_of(value):
                yield Text(Kind.HELP, value.lineno, text)


# By the type of a node, which spares most nodes.
TEXTS: Mapping[type[ast.AST], Callable[[ast.AST], Iterator[Text]]] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module), _of_definition),
    **dict.fromkeys((ast.Name, ast.arg), _of_name),
    ast.Call: _of_call,
    ast.Raise: _of_raise,
    ast.keyword: _of_keyword,
}


def is_logger(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lower().endswith(("log", "logger"))


def words_of(node: ast.expr) -> str:
    """Return the text of a string or an f-string, with … for its values; "" for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return ""


def page_texts(source: str) -> Iterator[Text]:
    """Yield the paragraphs of a page, without code and without the names in code font."""
    prose = FENCED.sub(lambda found: "\n" * found[0].count("\n"), source)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", prose):
        text = re.sub(r"`[^`]*`", "…", paragraph)
        if text.strip():
            yield Text(Kind.PAGE, line, " ".join(text.split()))
        line += paragraph.count("\n")
