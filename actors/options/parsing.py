"""From the command line to Options."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from actors.options.feature_gates import GA, GATES, resolve
from actors.options.table import FLAGS, Options
from actors.options.validation import validate
from runtime.flags import declaration as flags
from runtime.flags.declaration import FlagError
from runtime.flags.values import quote

PROGRAM = "kcm"
SUMMARY = (
    "Brings a Kubernetes cluster from what it is to what it shall be: watches it through the API server and makes the "
    "changes. Started without --kubeconfig and --master, and not in a pod, it starts a cluster of its own to work on."
)
TAINT_EVICTION = "taint-eviction-controller"


class InvalidOptions(Exception):
    """The options were understood but cannot be. errors: every fault; the text is all of them in one line."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def parse_options(argv: Sequence[str], *, known_controllers: Collection[str], aliases: Mapping[str, str]) -> Options:
    """Read the arguments that follow the program's name.

    known_controllers: canonical names. aliases: other name → canonical name; in the result's `controllers` all names
    are canonical. With --help or --version only these two count: the rest is read, and not validated.
    Raises FlagError when the line cannot be read, InvalidOptions when what it says cannot be.
    """
    parsed = flags.parse(FLAGS, argv)
    arguments = [argument for argument in parsed.positional if argument]
    if arguments:
        shown = " ".join(map(quote, parsed.positional))
        raise FlagError(f"{quote(PROGRAM)} does not take any arguments, got [{shown}]")
    options = Options(
        **flags.fill(Options, FLAGS, parsed.values), given=frozenset(parsed.values), warnings=parsed.warnings
    )
    if options.process.help or options.process.version in {"true", "raw"}:
        return options
    gates, errors = resolve(options.generic.feature_gate_settings)
    if errors:
        raise InvalidOptions(errors)
    options = replace(
        options,
        feature_gates=gates,
        generic=replace(options.generic, controllers=_controllers(options, known_controllers, aliases)),
        warnings=(*options.warnings, *_gate_warnings(options)),
    )
    errors = validate(options, known_controllers=known_controllers, aliases=aliases)
    if errors:
        raise InvalidOptions(errors)
    return options


def _controllers(options: Options, known: Collection[str], aliases: Mapping[str, str]) -> tuple[str, ...]:
    items = tuple(_canonical(item, aliases) for item in options.generic.controllers)
    # Taint eviction was a part of the node lifecycle controller with a switch of its own, and is a controller now.
    if not options.node_lifecycle.enable_taint_manager and TAINT_EVICTION in known:
        return (f"-{TAINT_EVICTION}", *items)
    return items


def _canonical(item: str, aliases: Mapping[str, str]) -> str:
    name = item.removeprefix("-")
    return ("-" if item.startswith("-") else "") + aliases.get(name, name)


def _gate_warnings(options: Options) -> list[str]:
    settings = dict(options.generic.feature_gate_settings)
    return [
        f"Setting GA feature gate {name}={value}. It will be removed in a future release."
        for name, value in settings.items()
        if name in GATES and GATES[name].stage == GA and name != "TaintBasedEvictions"
    ]


def help_text(*, columns: int) -> str:
    """What --help prints, for a terminal so wide."""
    return flags.usage(PROGRAM, SUMMARY, FLAGS, columns=columns)
