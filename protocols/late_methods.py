"""`dataclass` as the standard library has it, but for how its methods come about.

The standard library compiles up to six functions for each dataclass. For our 250 that was a third of a start, and most
of them are never called. Here `__init__` alone is compiled, once Python or somebody (`help`, `inspect.signature`) asks
the class for it. The others are plain functions that know the names of the fields.

What differs: a class that says itself how it is made, compared, hashed or set is the standard library's from the
beginning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

OWN = ("__init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__")


class _Given:
    """Stands in a signature for what a default_factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Given()


class _UnwrittenInit:
    """Stands in the class for the `__init__` that nobody has asked for."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        written = _init(self._cls)
        self._cls.__init__ = written  # type: ignore[misc]
        return written.__get__(instance, owner)


def has_late_init(cls: type) -> bool:
    """Nobody has asked for its `__init__` yet."""
    return isinstance(cls.__dict__.get("__init__"), _UnwrittenInit)


def _init(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    parameters = ["__self", *(_parameter(one) for one in fields if one.init and not one.kw_only)]
    keywords = [_parameter(one) for one in fields if one.init and one.kw_only]
    if keywords:
        parameters += ["*", *keywords]
    known = {"__set": object.__setattr__, "__factory": FACTORY}
    values = {one.name: _value(one) for one in fields}
    body = [_assignment(cls, name, value, known) for name, value in values.items() if value]
    if hasattr(cls, "__post_init__"):
        body.append("__self.__post_init__()")
    for one in fields:
        if one.default_factory is not MISSING:
            known[f"__make_{one.name}"] = one.default_factory
        elif one.default is not MISSING:
            known[f"__default_{one.name}"] = one.default
    lines = [
        f"def within({', '.join(known)}):",
        f" def __init__({', '.join(parameters)}):",
        *(f"  {line}" for line in body or ["pass"]),
        " return __init__",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<{cls.__qualname__}>", "exec"), {"__name__": cls.__module__}, namespace)
    written = namespace["within"](**known)
    written.__annotations__ = {**{one.name: one.type for one in fields if one.init}, "return": None}
    return _named(written, cls)


def _assignment(cls: Any, name: str, value: str, known: dict[str, Any]) -> str:
    """known: what the line refers to is added. A slot is set by its own descriptor, which need not be looked for."""
    if not cls.__dataclass_params__.frozen:
        return f"__self.{name} = {value}"
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"__set(__self, {name!r}, {value})"
    known[f"__set_{name}"] = slot.__set__
    return f"__set_{name}(__self, {value})"


def _parameter(one: Field[Any]) -> str:
    if one.default_factory is not MISSING:
        return f"{one.name}=__factory"
    return one.name if one.default is MISSING else f"{one.name}=__default_{one.name}"


def _value(one: Field[Any]) -> str:
    """What `__init__` sets it to; "": nothing."""
    if one.default_factory is not MISSING:
        made = f"__make_{one.name}()"
        return f"{made} if {one.name} is __factory else {one.name}" if one.init else made
    if one.init:
        return one.name
    return "" if one.default is MISSING else f"__default_{one.name}"


def _named(method: Any, cls: type, name: str = "__init__") -> Any:
    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _repr(fields: Sequence[Field[Any]]) -> Any:
    names = [one.name for one in fields if one.repr]

    @recursive_repr("...")
    def show(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return show


def _eq(fields: Sequence[Field[Any]]) -> Any:
    values = _values([one.name for one in fields if one.compare])

    def equals(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(fields: Sequence[Field[Any]]) -> Any:
    values = _values([one.name for one in fields if (one.compare if one.hash is None else one.hash)])

    def hash_of(self: Any) -> int:
        return hash(values(self))

    return hash_of


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _frozen(made: Any, fields: Sequence[Field[Any]]) -> dict[str, Any]:
    names = frozenset(one.name for one in fields)

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}


def _state(self: Any) -> list[Any]:
    """Of a frozen one with slots, which pickle and copy would set one by one."""
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _late(cls: type, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type:
    has_doc = bool(cls.__doc__)
    if not has_doc:
        cls.__doc__ = cls.__name__  # else the standard library writes a signature, of an __init__ that is not there
    inherits = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=frozen and inherits, slots=slots, kw_only=kw_only
    )(cls)
    if not has_doc:
        made.__doc__ = None
    params = made.__dataclass_params__
    params.init = params.repr = True
    params.frozen, params.eq = frozen, eq
    fields = dataclasses.fields(made)
    methods = {"__eq__": _eq(fields)} if eq else {}
    if "__repr__" not in made.__dict__:
        methods["__repr__"] = _repr(fields)
    if eq and frozen:
        methods["__hash__"] = _hash(fields)
    elif eq:
        made.__hash__ = None
    if frozen and not inherits:  # whether that may be, the standard library looks into
        methods |= _frozen(made, fields)
    for name, method in methods.items():
        setattr(made, name, _named(method, made, name))
    made.__init__ = _UnwrittenInit(made)
    if frozen and slots:
        made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """As `dataclasses.dataclass`, with those of its options that we use."""

        def make(cls):
            options = {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
            if any(name in cls.__dict__ for name in OWN):
                return dataclasses.dataclass(**options)(cls)
            return _late(cls, **options)

        return make if cls is None else make(cls)
