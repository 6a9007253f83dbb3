"""Parser of the command line: parse_options, and the text of --help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.options import general
from kcm.actors.options.feature_gates import gates_of, resolve, without_effect
from kcm.actors.options.known_controllers import KnownController, aliases_of, flags_of_controllers, in_order
from kcm.actors.options.known_gates import ALPHA, DEPRECATED, GA
from kcm.actors.options.table import CORE_GROUPS, Options, all_flags
from kcm.actors.options.validation import faults, unknown_controllers
from kcm.actors.options.versions import BINARY, CURRENT, version_faults
from kcm.protocols.errors import aggregate
from kcm.runtime.flags import declaration
from kcm.runtime.flags.declaration import Flag, FlagError, Parsed
from kcm.runtime.flags.values import quote

PROGRAM = "kcm"
# Groups of flags that only kube-controller-manager needs.
OF_THE_CLUSTER = (general.Cloud, general.LeaderMigration, general.Retired)
FIRST = ("embedded cluster", "diagnosis")  # sections that upstream does not have
SUMMARY = (
    "Runs the Kubernetes control loops: watches the cluster through the API server and moves it towards its desired "
    "state. Without --kubeconfig and --master, and not in a pod, it starts an embedded cluster and works on that. "
    "The subcommands ctl, top, why, wait, apiserver, snapshot, journal and completion have a --help of their own."
)
SUMMARY_OF_OTHERS = (
    "Runs {controllers}. Without --kubeconfig and --master, and not in a pod, it starts an embedded cluster and works "
    "on that."
)


class OtherProgram(Struct, frozen=True, kw_only=True):
    """Program of another author, which runs controllers beside the cluster's controller manager.

    name: in --help and error messages.
    defaults: values of flags, by name, where they differ from those of kube-controller-manager.
    has_cluster_flags: whether it has the flags of the cluster's own controllers as well.
    """

    name: str
    defaults: Mapping[str, Any]
    has_cluster_flags: bool = False


class InvalidOptionsError(Exception):
    """Options are invalid. The text contains all errors in one line.

    errors: all errors.
    known_controllers: set if --controllers names an unknown controller.
    """

    def __init__(self, errors: Sequence[str], *, known_controllers: Sequence[str] = ()) -> None:
        self.errors, self.known_controllers = tuple(errors), tuple(known_controllers)
        super().__init__(aggregate(errors))


def parse_options(
    argv: Sequence[str],
    *,
    controllers: Sequence[KnownController] = (),
    other: OtherProgram | None = None,
) -> Options:
    """Parse and validate the arguments that follow the program's name.

    controllers: controllers with their flags.
    other: the program whose command line this is; None for kube-controller-manager.

    In `generic.controllers` of the result all names are canonical. With --help or --version options are not validated.
    Raises FlagError for a malformed command line, InvalidOptionsError for invalid values, ValueError if two controllers
    have the same alias or flag.
    """
    aliases = aliases_of(controllers)
    flags = all_flags(flags_of_controllers(controllers))
    if other is not None:
        flags = _flags_of(other, flags)
    parsed = declaration.parse(flags, argv)
    arguments = [argument for argument in parsed.positional if argument]
    if arguments:
        shown = " ".join(map(quote, parsed.positional))
        name = other.name if other is not None else PROGRAM
        raise FlagError(f"{quote(name)} does not take any arguments, got [{shown}]")
    options = _options(flags, parsed, defaults=other.defaults if other is not None else {})
    if options.process.help or options.process.version in {"true", "raw"}:
        return options
    of_versions = version_faults(options.generic.emulated_version, options.generic.min_compatibility_version)
    gates, errors = resolve(options.generic.feature_gate_settings, CURRENT if of_versions else options.versions)
    if of_versions or errors:
        raise InvalidOptionsError([*of_versions, *errors])
    chosen = tuple(_canonical(item, aliases) for item in options.generic.controllers)
    options = replace(
        options,
        feature_gates=gates,
        generic=replace(options.generic, controllers=chosen),
        warnings=(*options.warnings, *_gate_warnings(options, gates), *_serving_warnings(options)),
    )
    names = sorted(controller.name for controller in controllers)
    unknown = unknown_controllers(chosen, names)
    checks = [check for controller in in_order(controllers) for check in controller.checks]
    errors = [*unknown, *faults(options, checks)]
    if errors:
        raise InvalidOptionsError(errors, known_controllers=names if unknown else ())
    return options


def _flags_of(program: OtherProgram, flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """Return the flags of another author's program, with its defaults."""
    return tuple(
        replace(flag, default=program.defaults.get(flag.name, flag.default))
        for flag in flags
        if program.has_cluster_flags or flag.path[0] not in OF_THE_CLUSTER
    )


def _options(flags: tuple[Flag, ...], parsed: Parsed, *, defaults: Mapping[str, Any]) -> Options:
    """Build Options. Controllers without given flags are left out; see Options.__getitem__."""
    values = {**defaults, **parsed.values}
    given = {flag.path[0] for flag in flags if flag.name in values}
    groups = declaration.fill([flag for flag in flags if flag.path[0] in given], values)
    core = {CORE_GROUPS[group]: values for group, values in groups.items() if group in CORE_GROUPS}
    return Options(
        **core,
        by_controller={group: values for group, values in groups.items() if group not in CORE_GROUPS},
        given=frozenset(parsed.values),
        flags=flags,
        warnings=parsed.warnings,
    )


def _canonical(item: str, aliases: Mapping[str, str]) -> str:
    name = item.removeprefix("-")
    return ("-" if item.startswith("-") else "") + aliases.get(name, name)


def _serving_warnings(options: Options) -> list[str]:
    if options.plain_http is None or "address" in options.given:
        return []
    return [f"Plain HTTP is served on {options.plain_serving.address} alone; --address=0.0.0.0 opens it to everybody"]


def _gate_warnings(options: Options, gates: Mapping[str, bool]) -> list[str]:
    settings = dict(options.generic.feature_gate_settings)
    known = gates_of(options.versions.emulation)
    by_stage = {GA: "GA", DEPRECATED: "deprecated"}
    warnings = [
        f"Setting {by_stage[known[name].stage]} feature gate {name}={value}. It will be removed in a future release."
        for name, value in settings.items()
        if name in known and known[name].stage in by_stage and name != "TaintBasedEvictions"
    ]
    alpha = [name for name, is_enabled in gates.items() if is_enabled and known[name].stage == ALPHA]
    if options.versions.emulation > BINARY:
        release = options.versions.emulation
        warnings.append(f"Release {release} is emulated from its source; it has not been compared with its programs")
    if alpha:  # also without --emulated-version, as the patch release of the binary is newer than any emulated version
        warnings.append(
            "component has alpha features enabled in emulated version, this is unsupported: "
            f"features=[{' '.join(sorted(alpha))}]"
        )
    idle = without_effect(settings.items(), gates, known)
    return [*warnings, f"Feature gates without effect here: {', '.join(idle)}"] if idle else warnings


def help_text(
    options: Options, *, columns: int, other: OtherProgram | None = None, controllers: Iterable[str] = ()
) -> str:
    """Return the text of --help for a terminal of this width, with all flags of these options.

    other: the program, if it is not run-kcm.
    controllers: names of the controllers of that program.
    """
    if other is None:
        return declaration.usage(PROGRAM, SUMMARY, options.flags, columns=columns, first=FIRST)
    summary = SUMMARY_OF_OTHERS.format(controllers=", ".join(controllers))
    return declaration.usage(other.name, summary, options.flags, columns=columns)
