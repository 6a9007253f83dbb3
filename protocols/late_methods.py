"""`dataclass` as the standard library has it, but for when its methods are written.

The standard library compiles up to six functions for each dataclass. For our 250 that was a third of a start, and most
of them are never called. Here a method is written when the class is first asked for it, by Python or by people
(`help`, `inspect.signature`); from then on it is the standard library's own.

Only what is not written late differs: a class that has such a method itself, or a dataclass among its bases, is the
standard library's from the beginning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

WRITTEN = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__")


class _Unwritten:
    """Stands in the class for a method that nobody has asked for."""

    __slots__ = ("_name", "_write")

    def __init__(self, name: str, write: Callable[[str], Any]) -> None:
        self._name, self._write = name, write

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self._write(self._name).__get__(instance, owner)


def late_methods(cls: type) -> set[str]:
    """Those that nobody has asked for yet."""
    return {name for name, what in cls.__dict__.items() if isinstance(what, _Unwritten)}


def _late(cls: type, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type:
    annotations = dict(cls.__annotations__)
    namespace: dict[str, Any] = {
        "__annotations__": annotations,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        **{name: cls.__dict__[name] for name in annotations if name in cls.__dict__},  # defaults
    }
    has_doc = bool(cls.__doc__)
    if not has_doc:
        cls.__doc__ = cls.__name__  # else the standard library writes a signature, of an __init__ that is not there
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    if not has_doc:
        made.__doc__ = None
    params = made.__dataclass_params__
    params.init = params.repr = True
    params.frozen, params.eq = frozen, eq
    if hasattr(made, "__post_init__"):
        namespace["__post_init__"] = made.__post_init__  # that __init__ calls it

    def write(name: str) -> Any:
        wanted = {
            "__init__": {"init": True, "frozen": frozen, "kw_only": kw_only},
            "__repr__": {"repr": True},
            "__eq__": {"eq": True},
            "__hash__": {"unsafe_hash": True},
        }[name]
        none_else = {"init": False, "repr": False, "eq": False, "match_args": False}
        twin: Any = dataclasses.dataclass(**{**none_else, **wanted})(
            type(cls.__name__, (), {"__doc__": "-", **namespace})
        )
        method = twin.__dict__[name]
        setattr(made, name, method)
        return method

    late = ["__init__", "__repr__"]
    if eq:
        late.append("__eq__")
        if frozen:
            late.append("__hash__")
        else:
            made.__hash__ = None
    for name in late:
        setattr(made, name, _Unwritten(name, write))
    if frozen:
        _freeze(made, pickled=slots)
    return made  # type: ignore[no-any-return]


def _freeze(made: Any, *, pickled: bool) -> None:
    """pickled: the state is in slots, which pickle and copy would set one by one."""
    names = frozenset(one.name for one in dataclasses.fields(made))

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    made.__setattr__, made.__delattr__ = refuse_to_set, refuse_to_delete
    if pickled:
        made.__getstate__, made.__setstate__ = _state, _set_state


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """As `dataclasses.dataclass`, with those of its options that we use."""

        def make(cls):
            is_plain = not any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
            options = {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
            if is_plain and not any(name in cls.__dict__ for name in WRITTEN):
                return _late(cls, **options)
            return dataclasses.dataclass(**options)(cls)

        return make if cls is None else make(cls)
