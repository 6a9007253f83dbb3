"""Settings of seeded runs: controllers, the simulated cluster, and a composition of trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from kcm.actors.app.tables import plan_tables
from kcm.actors.controllers.workloads import deployment, replicaset, replicationcontroller
from kcm.actors.engine.elector.groups import ControllerGroups
from kcm.actors.engine.webhooks.configurations import has_webhooks
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import (
    DISPATCHER,
    ELECTOR,
    GROUP_COORDINATOR,
    MANAGER,
    controller_name,
    elector_name,
    group_elector_name,
    informer_name,
)
from kcm.actors.reconciliation.derived import new_table
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, switched_on
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, declared_controller
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.actors.simulation.trials.scenario import NOTHING, Action, Fleet, Scenario
from kcm.actors.simulation.trials.trial import Trial, no_actions
from kcm.protocols.arguments import check_each, check_function, check_text, check_type
from kcm.protocols.resources import LEASES, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS, check_cluster
from kcm.runtime.faults.vocabulary import OF_WEBHOOKS, Fault
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.plan import WITH_CALLS, WITHOUT_CALLS, draw_plan

ACTING = 30.0  # seconds within which users act
MANAGERS = "manager*"
HOLLOW_NODES = "hollow-nodes-controller"  # controller of the hollow nodes; its trial is about heartbeats
WORKLOADS = (replicationcontroller.SPEC, replicaset.SPEC, deployment.SPEC)


class RunEnvironment(NamedTuple):
    """Arguments for the fakes of external systems in one run.

    seed: seed of the run.
    chance: random generator that the seed determines.
    clock: virtual clock of the run.
    """

    seed: int
    chance: Random
    clock: Clock


def run_environment(seed: int, clock: Clock) -> RunEnvironment:
    return RunEnvironment(seed, Random(f"outside {seed}"), clock)


class Setting(Struct, frozen=True, eq=False):
    """Declaration of seeded runs: the controllers, their trials, and the cluster that they run on.

    A scenario is a number that determines everything in a run but the faults and the order of messages.

    name: value of --setting; "module:ATTRIBUTE" for a setting of another package.
    outside: creates the fake of external systems for each run. Actions and invariants find the fake as
        `cluster.outside`. It outlives the managers of the run.
    controllers: controllers of the managers; a function of `outside` if there is one.
    trials: trials whose user actions are carried out; None for kcm's own trials of these controllers and of the hollow
        nodes. Every controller that runs is checked against its trial.
    with_users: selects the trials whose user actions are carried out in a scenario, in order.
    actions: user actions that replace those of the trials.
    invariants, unsettled, end_state: as in Trial, in addition to those of the trials.
    prepare: called with the cluster before any manager starts, for example to create CustomResourceDefinitions.
    scenarios: number of scenarios; the scenario of a seed is the seed modulo this number. None for a scenario per seed.
    options: options of the managers; None for the defaults.
    cloud: whether managers have a fake cloud.
    elections: number of managers that compete for the lease; 0 for one manager without a lease.
    groups: groups of controllers that these managers share among themselves; None for one lease.
    fleet: number of hollow nodes and of their zones.
    pod, steady: see Scenario.
    devices: whether nodes publish devices, and the scheduler allocates them.
    heartbeats: whether nodes renew their Leases; None to do so if a controller reads Leases.
    acting: seconds within which users act.
    faults: seconds within which faults are active.
    settled: seconds after the faults and the last user action within which the desired state must be reached.
    draw: draws the fault plan of a seed.
    clusters: names of the clusters, in a setting with several; they have no hollow nodes.
    calls: whether draw_plan, or a partial of it, also draws faults of external calls; None to do so if there is an
        `outside`.
    """

    name: str = "workloads"
    controllers: tuple[ControllerSpec, ...] | Callable[[Any], Iterable[ControllerSpec]] = WORKLOADS
    outside: Callable[[RunEnvironment], Any] | None = None
    trials: tuple[Trial, ...] | None = None
    with_users: Callable[[Scenario, Sequence[Trial]], Iterable[Trial]] = field(default=lambda _scenario, trials: trials)
    actions: Callable[[Scenario], Iterable[Action]] | None = None
    invariants: Callable[[SimulatedCluster, Scenario], Sequence[Invariant]] = field(default=lambda _c, _s: ())
    unsettled: Callable[[SimulatedCluster], Iterable[str]] = field(default=lambda _cluster: ())
    end_state: Callable[[SimulatedCluster], Mapping[str, Any]] = field(default=lambda _cluster: NOTHING)
    prepare: Callable[[SimulatedCluster], object] = field(default=lambda _cluster: None)
    options: Callable[[int], Options | None] = field(default=lambda _scenario: None)
    fleet: Callable[[int], Fleet] = field(default=lambda _scenario: Fleet())
    pod: Callable[[int], Mapping[str, Any]] = field(default=lambda _scenario: NOTHING)
    scenarios: int | None = None
    devices: bool = False
    heartbeats: bool | None = None
    steady: bool = True
    cloud: bool = False
    elections: Callable[[int], int] = field(default=lambda scenario: (0, 0, 1, 2)[scenario % 4])
    groups: ControllerGroups | None = None
    acting: float = ACTING
    faults: float = 40.0
    settled: float = 250.0
    draw: Callable[..., tuple[Fault, ...]] = draw_plan
    calls: bool | None = None
    clusters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise TypeError if a field has a wrong type, or if the controllers require an `outside` that is missing."""
        check_text("name of a Setting", self.name)
        if not callable(self.controllers):
            checked_specs(f"controllers of {self.name}", self.controllers)
        if self.trials is not None:
            check_each(
                f"trials of {self.name}", self.trials, lambda what, trial: check_type(what, trial, Trial, "a Trial")
            )
        check_each(f"clusters of {self.name}", self.clusters, lambda _what, name: check_cluster(name))
        check_function(f"prepare of {self.name}", self.prepare)
        if callable(self.controllers) and self.outside is None:
            raise TypeError(f"the controllers of {self.name} are a function of its `outside`, which is missing")

    def create_outside(self, environment: RunEnvironment) -> Any:
        """Create the fake of external systems for one run; None if the setting has no `outside`."""
        return None if self.outside is None else self.outside(environment)

    def specs(self, outside: Any) -> tuple[ControllerSpec, ...]:
        """Return the specs of the controllers. outside: fake of external systems that they use, if any."""
        return tuple(self.controllers(outside)) if callable(self.controllers) else self.controllers

    def some_specs(self) -> tuple[ControllerSpec, ...]:
        """Return the specs of the controllers of an arbitrary run, for their names and resources."""
        return self.specs(self.create_outside(run_environment(0, VirtualClock())))

    def has_calls(self) -> bool:
        return self.outside is not None if self.calls is None else self.calls

    def has_webhooks(self) -> bool:
        return has_webhooks(self.some_specs())

    def number(self, seed: int) -> int:
        """Return the number of the scenario that a seed runs."""
        return seed if self.scenarios is None else seed % self.scenarios

    def scenario(self, number: int, *, draw: Callable[[str], Random] | None = None) -> Scenario:
        """Create a scenario, which determines user actions and options. draw: see Scenario."""
        fleet, pod = self.fleet(number), self.pod(number)
        return Scenario(
            number,
            seconds=self.acting,
            disturbed=self.faults,
            fleet=fleet,
            pod=pod,
            steady=self.steady,
            draw=draw,
        )

    def plan(self, seed: int) -> tuple[Fault, ...]:
        # A setting may have bound arguments of draw_plan, for example resources; faults of calls are added to them.
        draw, bound = (self.draw.func, self.draw.keywords) if isinstance(self.draw, partial) else (self.draw, NOTHING)
        more: dict[str, Any] = {}
        if draw is draw_plan and self.has_calls():
            more = {"kinds": WITH_CALLS, "callees": ("*",), **bound}
        if draw is draw_plan and self.clusters:
            more = {**more, "clusters": self.clusters}
        if draw is draw_plan and self.has_webhooks():
            more = {**more, "kinds": (*more.get("kinds", bound.get("kinds", WITHOUT_CALLS)), *OF_WEBHOOKS)}
        return self.draw(seed, seconds=self.faults, process=MANAGERS, actors=self.actors(), **more)

    def actors(self) -> tuple[str, ...]:
        """Return the names of the actors that faults may target. Patterns such as "informer:*" are among them."""
        return _actors(self)

    def has_heartbeats(self) -> bool:
        if self.heartbeats is not None:
            return self.heartbeats
        return any(LEASES in spec.resources for spec in self.some_specs())

    def has_volumes(self) -> bool:
        """Report whether the hollow nodes provision volumes, which they do if a controller reads PersistentVolumes."""
        return any(PERSISTENT_VOLUMES in spec.resources for spec in self.some_specs())

    def attaches_volumes(self) -> bool:
        """Report whether pods wait until their volumes are attached, which they do if a controller attaches them."""
        return any(VOLUME_ATTACHMENTS in spec.resources for spec in self.some_specs())

    def composed(self, number: int) -> Composition:
        """Return the Composition of all trials whose controllers run in the scenario of this number."""
        options = self.options(number) or Options()
        hollow = hollow_specs(
            nodes=1, zones=1, volumes=self.has_volumes(), attach=self.attaches_volumes(), devices=self.devices
        )
        hollow = tuple(spec for spec in hollow if spec.name != HOLLOW_NODES or self.has_heartbeats())
        if self.clusters:
            hollow = ()
        own = self.some_specs()
        specs = [*hollow, *(spec for spec in switched_on(own, options) if spec.enabled_if(options))]
        return Composition(self, {spec.name: spec for spec in specs}, options, named=[spec.name for spec in own])


@lru_cache(maxsize=64)
def _actors(setting: Setting) -> tuple[str, ...]:
    """Return the names of the actors in the runs of a setting, and patterns such as "informer:*"."""
    specs = setting.some_specs()
    names = {spec.name for spec in specs}
    tables = plan_tables(specs, options=Options(), enabled=names, make_table=new_table).tables
    return (
        MANAGER,
        DISPATCHER,
        ELECTOR,
        informer_name("*"),
        controller_name("*"),
        *map(elector_name, setting.clusters),
        *((GROUP_COORDINATOR, group_elector_name("*")) if setting.groups is not None else ()),
        *(informer_name(table_id) for table_id in tables),
        *(controller_name(spec.name) for spec in specs),
    )


class Composition:
    """Trials of a setting, combined: their user actions, invariants, conditions and end states.

    Raises ValueError for a trial of a controller that the setting does not have.

    trials: trials of the running controllers, in the order in which they draw their actions.
    options: options of the managers.
    """

    def __init__(
        self, setting: Setting, specs: Mapping[str, ControllerSpec], options: Options, *, named: Iterable[str]
    ) -> None:
        """Combine the trials of a setting.

        specs: controllers that run, by name.
        options: options of the managers.
        named: names of all controllers of the setting, including those that are disabled.
        """
        self._setting, self.options = setting, options
        known = {*named} | specs.keys() | {HOLLOW_NODES}
        if setting.trials is None:
            trials: Mapping[str, Trial] = TRIALS
        else:
            given = {trial.controller: trial for trial in setting.trials}
            if unknown := sorted(given.keys() - known):
                raise ValueError(f"{setting.name} has trials of controllers that it does not have: {unknown}")
            trials = {**{name: replace(trial, actions=no_actions) for name, trial in TRIALS.items()}, **given}
        self.trials = tuple(trial for name, trial in trials.items() if name in specs)
        _check_counted(self.trials, specs)
        self.ownership = OwnershipIndex(
            declared_controller(
                trial.controller,
                client=specs[trial.controller].client,
                owns=trial.owns,
                deletes=trial.deletes,
                deletes_any=trial.deletes_any,
            )
            for trial in self.trials
        )

    def actions(self, scenario: Scenario) -> list[Action]:
        """Return the user actions of all trials, in order of time."""
        if self._setting.actions is not None:
            return list(self._setting.actions(scenario))
        trials = [trial for trial in self.trials if trial.actions is not no_actions]
        drawn = [action for trial in self._setting.with_users(scenario, trials) for action in trial.actions(scenario)]
        return sorted(drawn, key=lambda action: action.at)

    def invariants(self, cluster: SimulatedCluster, scenario: Scenario) -> list[Invariant]:
        found = [invariant for trial in self.trials for invariant in trial.invariants(cluster, self.options)]
        return [*found, *self._setting.invariants(cluster, scenario)]

    def unsettled(self, cluster: SimulatedCluster) -> Iterator[str]:
        """Yield a text for each deviation from the desired state; nothing once the system has settled. Lazy."""
        for trial in self.trials:
            yield from trial.unsettled(cluster)
        yield from self._setting.unsettled(cluster)

    def is_settled(self, cluster: SimulatedCluster) -> bool:
        return next(self.unsettled(cluster), None) is None

    def end_state(self, cluster: SimulatedCluster) -> dict[str, Any]:
        """Return the part of the cluster's state that depends only on the user actions, and not on faults or timing."""
        state: dict[str, Any] = {}
        for part in (*(trial.end_state for trial in self.trials), self._setting.end_state):
            state |= part(cluster)
        return state


def _check_counted(trials: Iterable[Trial], specs: Mapping[str, ControllerSpec]) -> None:
    """Raise ValueError if a trial requires the pods of a controller to be counted that watches only some of them."""
    for trial in trials:
        counted = [owns for owns in trial.owns if owns.dependents == PODS and owns.wanted is not None]
        for resource in {dependent for owns in counted for dependent in (owns.owner, owns.dependents)}:
            if any(spec.resource == resource and spec.is_restricted for spec in specs[trial.controller].selecting):
                raise ValueError(
                    f"{trial.controller} watches only some {resource}, but the replicas of an owner count all of them: "
                    f"omit `wanted` in its Owns, and add an invariant to the trial"
                )


USUAL = Setting()
