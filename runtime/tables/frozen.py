"""Objects that raise when somebody changes them: what tables hand out under test, to catch whoever writes to them."""

from __future__ import annotations

from typing import Any, NoReturn

from protocols.objects import Object


class FrozenError(TypeError):
    """An object that was read from a table was about to be changed: copy the part that you change."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise FrozenError(f"a {type(self).__name__} was read from a table and is not to be changed")


class FrozenDict(dict[str, Any]):
    """Reads as the dict that it is."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenList(list[Any]):
    """Reads as the list that it is."""

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
