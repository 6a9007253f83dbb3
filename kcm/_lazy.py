"""Public names that are imported when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any


def lazily(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose names are defined in other modules.

    where: "module:attribute" by public name.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        place = where.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = resolve_name(place)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *where})

    return get, names
