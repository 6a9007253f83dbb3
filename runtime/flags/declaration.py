"""Command-line flags with the syntax that kube-controller-manager has from Go's pflag.

A group of flags is a FlagStruct whose every field is declared with flag():

    class Generic(FlagStruct, frozen=True, kw_only=True):
        kube_api_burst: int = flag(30, "Requests that may be sent at once.")            # --kube-api-burst
        resync: float = flag(43200.0, "...", kind=DURATION, name="min-resync-period")   # --min-resync-period=1h30m

The options of a program are a FlagStruct of groups, each declared with group(); flags_in() returns the flags of a
single group. argparse is not used: it cannot distinguish `--flag value` from a boolean `--flag` without a value, and
its errors exit the process.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from msgspec import Struct, StructMeta, field

from kcm.protocols.arguments import check_text
from kcm.runtime.flags.values import BOOL, INT32, STRING, STRINGS, ValueType, format_duration, parse_duration, quote

__all__ = [
    "Flag",
    "FlagError",
    "FlagStruct",
    "Parsed",
    "fill",
    "flag",
    "flags_in",
    "flags_of",
    "format_duration",
    "group",
    "parse",
    "parse_duration",
    "spellings",
]

T = TypeVar("T")
INEFFECTIVE = "ineffective"  # the last section of --help
KINDS: Mapping[type, ValueType[Any]] = {bool: BOOL, int: INT32, str: STRING, tuple: STRINGS}


class FlagError(Exception):
    """The command line is invalid. The text is one line for the user."""


class Flag(Struct, frozen=True, kw_only=True):
    """Command-line flag.

    path: the FlagStruct and its field that contain the value.
    former: earlier names, which also set the flag, with a warning.
    retired: why the flag is accepted but no longer has an effect; "" while it has one.
    config: name in /configz, in the block of its group, such as "LeaderElection.leaseDuration"; "" to leave it out.
    """

    name: str
    path: tuple[type, str]
    section: str
    kind: ValueType[Any]
    default: Any
    help: str
    short: str = ""
    hidden: bool = False
    retired: str = ""
    former: tuple[str, ...] = ()
    config: str = ""


class Parsed(Struct, frozen=True, kw_only=True):
    """Parsed command line.

    values: by name, of the flags on the command line.
    positional: the other arguments.
    """

    values: Mapping[str, Any]
    positional: tuple[str, ...]
    warnings: tuple[str, ...]


class _Declaration(NamedTuple):
    default: Any  # as in the body of a Struct
    described: Mapping[str, Any]  # arguments of flag() or group()


class _FlagStructMeta(StructMeta):
    """Metaclass that replaces each declaration by its default, because fields of Structs have no metadata."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any
    ) -> _FlagStructMeta:
        declared = {key: value for key, value in namespace.items() if isinstance(value, _Declaration)}
        defaults = {key: value.default for key, value in declared.items()}
        described = {key: value.described for key, value in declared.items()}
        inherited = {key: value for base in reversed(bases) for key, value in getattr(base, "declared", {}).items()}
        return super().__new__(
            mcls, name, bases, {**namespace, **defaults, "declared": inherited | described}, **options
        )

    def __setattr__(cls, name: str, value: Any) -> None:
        if name == "__dataclass_params__":
            raise TypeError(f"{cls.__name__} is declared without @dataclass: class {cls.__name__}(…, frozen=True)")
        super().__setattr__(name, value)


class FlagStruct(Struct, metaclass=_FlagStructMeta, frozen=True, kw_only=True):
    """Base of groups of flags, and of the options of a program, which are made of groups.

    declared: by field, the arguments of flag() or group(), in the order of the fields.
    """

    declared: ClassVar[Mapping[str, Mapping[str, Any]]] = {}


def flag(default: T, help: str, *, kind: ValueType[T] | None = None, name: str = "", **more: Any) -> T:
    """Declare a field as a flag.

    default: its value without the flag.
    kind: may be omitted for booleans, 32-bit integers, strings and comma-separated lists.
    name: by default the field's name with "-" instead of "_".
    more: other fields of Flag.
    """
    if kind is None and type(default) not in KINDS:
        known = ", ".join(sorted(type_.__name__ for type_ in KINDS))
        raise TypeError(f"the default of a flag is one of {known}, or `kind` is given, not {default!r:.80}")
    check_text("help of a flag", help)
    described = {"default": default, "help": help, "kind": kind or KINDS[type(default)], "name": name, **more}
    return cast("T", _Declaration(default, described))


def group(kind: type[T], section: str, *, config: str = "") -> T:
    """Declare a field as a group of flags.

    section: heading in --help.
    config: block of /configz that contains the config names of its flags.
    """
    described = {"group": kind, "section": section, "config": config}
    return cast("T", _Declaration(field(default_factory=kind), described))


def flags_in(group: type[FlagStruct], *, section: str, config: str = "") -> tuple[Flag, ...]:
    """Return the flags of a group in the order of its fields. The other parameters are those of group()."""
    found = []
    for name, described in group.declared.items():
        own = dict(described)
        own["name"] = own["name"] or name.replace("_", "-")
        if own.get("config") and config:
            own["config"] = f"{config}.{own['config']}"
        found.append(Flag(path=(group, name), section=section, **own))
    return tuple(found)


def flags_of(options: type[FlagStruct]) -> tuple[Flag, ...]:
    """Return the flags of the groups of these options, in the order of declaration."""
    return tuple(flag for described in options.declared.values() for flag in flags_in(**described))


def fill(flags: Iterable[Flag], values: Mapping[str, Any]) -> dict[type, Any]:
    """Return the groups of these flags by class, with the given values, and defaults for the other flags."""
    by_group: dict[type, dict[str, Any]] = {}
    for flag in flags:
        group, entry = flag.path
        given = by_group.setdefault(group, {})
        if flag.name in values:
            given[entry] = values[flag.name]
    return {group: group(**given) for group, given in by_group.items()}


def spellings(flag: Flag) -> tuple[str, ...]:
    """Return all names of the flag on a command line."""
    return tuple(f"--{name}" for name in (flag.name, *flag.former)) + ((f"-{flag.short}",) if flag.short else ())


def normalised(name: str) -> str:
    return name.replace("_", "-")


def parse(flags: Sequence[Flag], argv: Sequence[str]) -> Parsed:
    """Parse a command line without the program's name. Raises FlagError."""
    return _Parser(flags).run(argv)


class _Parser:
    def __init__(self, flags: Sequence[Flag]) -> None:
        self._by_name = {name: flag for flag in flags for name in (flag.name, *flag.former)}
        self._by_letter = {flag.short: flag for flag in flags if flag.short}
        self._values: dict[str, Any] = {}
        self._warnings: dict[str, None] = {}  # in order, each once

    def run(self, argv: Sequence[str]) -> Parsed:
        rest = deque(argv)
        positional: list[str] = []
        while rest:
            word = rest.popleft()
            if word == "--":
                positional += rest
                break
            if word.startswith("--"):
                self._long(word, rest)
            elif word.startswith("-") and word != "-":
                self._short(word, rest)
            else:
                positional.append(word)
        return Parsed(values=self._values, positional=tuple(positional), warnings=tuple(self._warnings))

    def _long(self, word: str, rest: deque[str]) -> None:
        name, given, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        flag = self._by_name.get(normalised(name))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if not given:
            value = self._value(flag, rest, f"--{name}")
        self._set(flag, value, used=normalised(name))

    def _short(self, word: str, rest: deque[str]) -> None:
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            flag = self._by_letter.get(letter)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: {_single_quoted(letter)} in {word}")
            if letters.startswith("="):
                value, letters = letters[1:], ""
            elif flag.kind.bare:
                value = flag.kind.bare
            elif letters:
                value, letters = letters, ""
            else:
                value = self._value(flag, rest, f"{_single_quoted(letter)} in {word}")
            self._set(flag, value, used=flag.name)

    @staticmethod
    def _value(flag: Flag, rest: deque[str], where: str) -> str:
        if flag.kind.bare:
            return flag.kind.bare
        if not rest:
            raise FlagError(f"flag needs an argument: {where}")
        return rest.popleft()

    def _set(self, flag: Flag, text: str, *, used: str) -> None:
        try:
            value = flag.kind.parse(text)
        except ValueError as error:
            name = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise FlagError(f"invalid argument {quote(text)} for {quote(name)} flag: {error}") from error
        if flag.kind.add is not None and flag.name in self._values:
            value = flag.kind.add(self._values[flag.name], value)
        self._values[flag.name] = value
        if used != flag.name:
            self._warnings[f"Flag --{used} has been deprecated, use --{flag.name}"] = None
        if flag.retired:
            self._warnings[f"Flag --{flag.name} has no effect: {flag.retired}"] = None


def _single_quoted(letter: str) -> str:
    return f"'{letter}'"


def usage(program: str, summary: str, flags: Sequence[Flag], *, columns: int, first: Sequence[str] = ()) -> str:
    """Return the text of --help: flags by section, and by name within a section.

    first: the first sections; the others follow in the order of their first flags. Flags without effect are listed
    last, in a separate section.
    """
    shown = [flag for flag in flags if not flag.hidden]
    sections: dict[str, list[Flag]] = {title: [] for title in first}
    for flag in shown:
        if not flag.retired:
            sections.setdefault(flag.section, []).append(flag)
    sections[INEFFECTIVE] = [flag for flag in shown if flag.retired]
    lines = [textwrap.fill(summary, columns), "", "Usage:", f"  {program} [flags]"]
    for title, members in sections.items():
        if not members:
            continue
        lines += ["", f"{title[:1].upper()}{title[1:]} flags:", ""]
        for flag in sorted(members, key=lambda member: member.name):
            lines += _described(flag, columns)
    return "\n".join(lines) + "\n"


def _described(flag: Flag, columns: int) -> Iterator[str]:
    letter = f"-{flag.short}, " if flag.short else "    "
    yield f"  {letter}--{flag.name} {flag.kind.name}".rstrip()
    text = flag.help
    if _is_worth_showing(flag.default):
        text += f" (default {flag.kind.show(flag.default)})"
    if flag.retired:
        text += f" (no effect: {flag.retired})"
    yield from textwrap.wrap(
        text,
        columns,
        initial_indent=" " * 16,
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _is_worth_showing(default: object) -> bool:
    return default not in (False, 0, 0.0, "", ())
