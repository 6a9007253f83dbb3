"""Read-only objects: tables return them in tests, to detect reconcilers that modify objects of a table."""

from __future__ import annotations

from typing import Any, NoReturn

from kcm.protocols.objects import Object


class FrozenError(TypeError):
    """Attempt to modify an object of a table. Copy the part that changes instead."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise FrozenError(f"a {type(self).__name__} was read from a table and is not to be changed")


class FrozenDict(dict[str, Any]):
    """Read-only dict."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenList(list[Any]):
    """Read-only list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = _refuse


def freeze(obj: Object) -> Object:
    """Return a read-only copy of a decoded object."""
    frozen = FrozenDict(obj)
    for key, value in obj.items():
        if type(value) is dict:
            dict.__setitem__(frozen, key, freeze(value))
        elif type(value) is list:
            dict.__setitem__(frozen, key, _frozen_list(value))
    return frozen


def _frozen_list(values: list[Any]) -> FrozenList:
    return FrozenList(
        [
            freeze(value) if type(value) is dict else _frozen_list(value) if type(value) is list else value
            for value in values
        ]
    )
