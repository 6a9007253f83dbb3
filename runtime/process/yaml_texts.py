"""Error texts for invalid YAML files: their position in one line, and the types of values as Go names them."""

from __future__ import annotations

from typing import Any


def yaml_complaint(path: object, error: Exception) -> str:
    """Return "FILE:LINE:COLUMN: not YAML: reason".

    error: raised by PyYAML, by go_yaml or by decoding; some have no position.
    """
    if getattr(error.__cause__, "problem_mark", None) is not None:  # PyYAML's, which names line and column
        error = error.__cause__  # type: ignore[assignment]
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return f"{path}: not YAML: {' '.join(str(error).split())}"
    context, began = getattr(error, "context", None), getattr(error, "context_mark", None)
    while_at = f", {context}" if context else ""
    if context and began is not None and began.line != mark.line:
        while_at += f" that begins in line {began.line + 1}"
    return f"{path}:{mark.line + 1}:{mark.column + 1}: not YAML: {getattr(error, 'problem', None) or error}{while_at}"


def json_type(value: Any) -> str:
    """Return the name that Go's JSON decoder gives to the type of a value in its error messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
