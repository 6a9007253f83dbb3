"""`dataclass` decorator like the standard library's that does not compile methods in advance.

The standard library compiles up to six functions for each dataclass. For 250 classes this took a third of the start-up
time, although most of the functions are never called. Here only `__init__` is compiled, at its first use (a call,
`help` or `inspect.signature`). The other methods are plain functions over the names of the fields.

A class that defines one of the methods of OWN itself is passed to the standard library's decorator.
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
    """Default value, in a signature, of a field with a default_factory."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Given()


class _UnwrittenInit:
    """Descriptor that compiles `__init__` at its first use."""

    __slots__ = ("_cls",)

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        written = _init(self._cls)
        self._cls.__init__ = written  # type: ignore[misc]
        return written.__get__(instance, owner)


def has_late_init(cls: type) -> bool:
    """Report whether `__init__` of the class has not been compiled yet."""
    return isinstance(cls.__dict__.get("__init__"), _UnwrittenInit)


def _init(cls: Any) -> Any:
    fields = dataclasses.fields(cls)
    parameters = ["__self", *(_parameter(field) for field in fields if field.init and not field.kw_only)]
    keywords = [_parameter(field) for field in fields if field.init and field.kw_only]
    if keywords:
        parameters += ["*", *keywords]
    known = {"__set": object.__setattr__, "__factory": FACTORY}
    values = {field.name: _value(field) for field in fields}
    body = [_assignment(cls, name, value, known) for name, value in values.items() if value]
    if hasattr(cls, "__post_init__"):
        body.append("__self.__post_init__()")
    for field in fields:
        if field.default_factory is not MISSING:
            known[f"__make_{field.name}"] = field.default_factory
        elif field.default is not MISSING:
            known[f"__default_{field.name}"] = field.default
    lines = [
        f"def within({', '.join(known)}):",
        f" def __init__({', '.join(parameters)}):",
        *(f"  {line}" for line in body or ["pass"]),
        " return __init__",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<{cls.__qualname__}>", "exec"), {"__name__": cls.__module__}, namespace)
    written = namespace["within"](**known)
    written.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return _named(written, cls)


def _assignment(cls: Any, name: str, value: str, known: dict[str, Any]) -> str:
    """Return the line that sets a field, and add the names that it uses to `known`.

    A slot is set through its descriptor, which saves the attribute lookup.
    """
    if not cls.__dataclass_params__.frozen:
        return f"__self.{name} = {value}"
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"__set(__self, {name!r}, {value})"
    known[f"__set_{name}"] = slot.__set__
    return f"__set_{name}(__self, {value})"


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=__factory"
    return field.name if field.default is MISSING else f"{field.name}=__default_{field.name}"


def _value(field: Field[Any]) -> str:
    """Return the expression that `__init__` assigns to the field, or "" for no assignment."""
    if field.default_factory is not MISSING:
        made = f"__make_{field.name}()"
        return f"{made} if {field.name} is __factory else {field.name}" if field.init else made
    if field.init:
        return field.name
    return "" if field.default is MISSING else f"__default_{field.name}"


def _named(method: Any, cls: type, name: str = "__init__") -> Any:
    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _repr(fields: Sequence[Field[Any]]) -> Any:
    names = [field.name for field in fields if field.repr]

    @recursive_repr("...")
    def show(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return show


def _eq(fields: Sequence[Field[Any]]) -> Any:
    values = _values([field.name for field in fields if field.compare])

    def equals(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(fields: Sequence[Field[Any]]) -> Any:
    values = _values([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

    def hash_of(self: Any) -> int:
        return hash(values(self))

    return hash_of


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _frozen(made: Any, fields: Sequence[Field[Any]]) -> dict[str, Any]:
    names = frozenset(field.name for field in fields)

    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}


# Pickle and copy would set the fields of a frozen class with slots one by one, which raises an error.
def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _late(cls: type, *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type:
    has_doc = bool(cls.__doc__)
    if not has_doc:
        # Otherwise the standard library writes the signature, for which `__init__` would have to exist.
        cls.__doc__ = cls.__name__
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
    if frozen and not inherits:  # a frozen subclass was checked by the standard library above
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
        """Work like `dataclasses.dataclass`, with the options that this project uses."""

        def make(cls):
            options = {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
            if any(name in cls.__dict__ for name in OWN):
                return dataclasses.dataclass(**options)(cls)
            return _late(cls, **options)

        return make if cls is None else make(cls)
