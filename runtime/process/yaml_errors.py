"""Error texts for invalid YAML files, in one line with the position."""

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
