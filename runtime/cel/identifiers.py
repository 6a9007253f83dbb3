"""Escaping of field names to identifiers.

Source: k8s.io/apiserver/pkg/cel/escaping.go.
"""

from __future__ import annotations

import re

RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"}
    | {"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_SPECIAL = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escaped(name: str) -> str | None:
    """Return the identifier of a field name; None if no identifier can represent it."""
    if name in RESERVED:
        return f"__{name}__"
    if re.fullmatch(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*", name) is None:
        return None
    return re.sub(r"__|[-./]", lambda match: _SPECIAL[match.group()], name)
