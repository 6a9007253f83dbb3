"""All options, typed: a field for each group of general flags, and a map of the options of single controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Self, TypeVar

from msgspec import field
from msgspec.structs import replace

from kcm.actors.options import general, serving
from kcm.actors.options.controller_options import ControllerOptions
from kcm.actors.options.embedded import Diagnosis, Embedded
from kcm.actors.options.feature_gates import DEFAULTS, features
from kcm.actors.options.versions import EffectiveVersions, effective_versions
from kcm.protocols.reprs import repr_without
from kcm.runtime.flags.declaration import Flag, FlagStruct, flags_of, group, spellings

G = TypeVar("G", bound=ControllerOptions)
NO_GROUPS: Mapping[type[ControllerOptions], ControllerOptions] = MappingProxyType({})


class Options(FlagStruct, frozen=True, kw_only=True):
    """Parsed command line. Options() has the default of every flag."""

    debugging: general.Debugging = group(general.Debugging, "debugging", config="Generic.Debugging")
    leader_migration: general.LeaderMigration = group(general.LeaderMigration, "leader-migration", config="Generic")
    generic: general.Generic = group(general.Generic, "generic", config="Generic")
    client_limits: general.ClientLimits = group(general.ClientLimits, "generic", config="Generic.ClientConnection")
    storm_brake: general.StormBrakeOptions = group(general.StormBrakeOptions, "generic")
    leader_election: general.LeaderElection = group(general.LeaderElection, "generic", config="Generic.LeaderElection")
    cloud: general.Cloud = group(general.Cloud, "generic", config="KubeCloudShared")
    secure_serving: serving.SecureServing = group(serving.SecureServing, "secure serving")
    plain_serving: serving.PlainServing = group(serving.PlainServing, "insecure serving")
    authentication: serving.Authentication = group(serving.Authentication, "authentication")
    authorization: serving.Authorization = group(serving.Authorization, "authorization")

    metrics: general.MetricsOptions = group(general.MetricsOptions, "metrics")
    traces: general.TraceOptions = group(general.TraceOptions, "traces")
    logging: general.Logging = group(general.Logging, "logs")
    client: general.Client = group(general.Client, "misc", config="Generic.ClientConnection")
    embedded: Embedded = group(Embedded, "embedded cluster")
    diagnosis: Diagnosis = group(Diagnosis, "diagnosis")
    health: general.HealthThresholds = group(general.HealthThresholds, "diagnosis")
    retired: general.Retired = group(general.Retired, "retired")
    process: general.ProcessOptions = group(general.ProcessOptions, "global")

    # Options of single controllers by their class, read as `options[JobOptions]`.
    by_controller: Mapping[type[ControllerOptions], ControllerOptions] = field(default_factory=lambda: NO_GROUPS)
    # Every known feature gate, and whether it is enabled.
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType(dict(DEFAULTS)))
    given: frozenset[str] = frozenset()  # names of the flags on the command line
    flags: tuple[Flag, ...] = field(default_factory=lambda: CORE_FLAGS)  # all known flags
    warnings: tuple[str, ...] = ()  # log lines about flags without effect

    def __repr__(self) -> str:
        return repr_without(self, "flags")

    def __getitem__(self, group: type[G]) -> G:
        """Return the options of one controller, or their defaults."""
        found = self.by_controller.get(group)
        return found if isinstance(found, group) else group()

    def value_of(self, flag: Flag) -> Any:
        group, entry = flag.path
        holder = self[group] if issubclass(group, ControllerOptions) else getattr(self, CORE_GROUPS[group])
        return getattr(holder, entry)

    def with_group(self, group: ControllerOptions) -> Self:
        """Return a copy with these options of a controller."""
        return replace(self, by_controller=MappingProxyType({**self.by_controller, type(group): group}))

    def with_given_of(self, other: Options) -> Self:
        """Return a copy, updated by the flags that were given on the command line of `other`."""
        core: dict[str, Any] = {}
        by_controller: dict[type[ControllerOptions], Any] = dict(self.by_controller)
        changed = {name: on for name, on in other.feature_gates.items() if on != DEFAULTS.get(name)}
        for flag in other.flags:
            if flag.name not in other.given:
                continue
            group, entry = flag.path
            if issubclass(group, ControllerOptions):
                by_controller[group] = replace(by_controller.get(group, group()), **{entry: other.value_of(flag)})
            else:
                name = CORE_GROUPS[group]
                core[name] = replace(core.get(name) or getattr(self, name), **{entry: other.value_of(flag)})
        return replace(
            self,
            **core,
            by_controller=MappingProxyType(by_controller),
            feature_gates=MappingProxyType({**self.feature_gates, **changed}),
            given=self.given | other.given,
            flags=tuple(dict.fromkeys((*self.flags, *other.flags))),
            warnings=tuple(dict.fromkeys((*self.warnings, *other.warnings))),
        )

    @property
    def versions(self) -> EffectiveVersions:
        """Return the release to emulate, and the oldest one to be compatible with."""
        return effective_versions(self.generic.emulated_version, self.generic.min_compatibility_version)

    @property
    def features(self) -> Iterator[tuple[str, str, bool]]:
        """Return name, stage and state of each feature gate that the emulated release has."""
        return features(self.feature_gates, self.generic.feature_gate_settings, self.versions.emulation)

    @property
    def plain_http(self) -> tuple[str, int] | None:
        """Return the address and port of plain HTTP, or None if it is not served."""
        if not self.given & {"address", "port"} or self.plain_serving.port == 0:
            return None
        return self.plain_serving.address, self.plain_serving.port

    @property
    def embeds_cluster(self) -> bool:
        """Report whether neither a kubeconfig nor a server is named. (Callers also check for a pod's credentials.)"""
        return not self.client.kubeconfig and not self.client.master


CORE_FLAGS: tuple[Flag, ...] = flags_of(Options)
CORE_GROUPS: Mapping[type, str] = {  # group → its field
    described["group"]: name for name, described in Options.declared.items()
}
BEHIND_CONTROLLERS = "metrics"  # the section of --help that follows the sections of controllers


def all_flags(controllers: Iterable[Flag]) -> tuple[Flag, ...]:
    """Return all flags in upstream's order. Raises ValueError if two flags have the same spelling."""
    added = tuple(controllers)
    owners: dict[str, Flag] = {}
    for flag in (*CORE_FLAGS, *added):
        for word in spellings(flag):
            owner = owners.setdefault(word, flag)
            if owner is not flag:
                raise ValueError(f"the flag {word} of {flag.section} is taken by {owner.section}")
    before = list(takewhile(lambda flag: flag.section != BEHIND_CONTROLLERS, CORE_FLAGS))
    return (*before, *added, *CORE_FLAGS[len(before) :])
