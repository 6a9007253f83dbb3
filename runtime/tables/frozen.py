"""Objects that raise when they are modified: tables return them under test, to catch reconcilers that modify them."""

from __future__ import annotations

from typing import Any, NoReturn

from kcm.protocols.objects import Object


class FrozenError(TypeError):
    """An object that was read from a table was about to be modified: copy the part that changes."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise FrozenError(f"a {type(self).__name__} was read from a table and is not to be changed")


class FrozenDict(dict[str, Any]):
    """A dict that can only be read."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenList(list[Any]):
    """A list that can only be read."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = _refuse


def freeze(obj: Object) -> Object:
    """A copy of a decoded object, frozen all the way down."""
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
