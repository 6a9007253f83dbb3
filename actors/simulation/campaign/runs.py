"""One run of a setting and a seed, from the first user action until the system has settled and remained settled.

The seed of a run determines the user actions, the faults, and the order in which actors handle messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.actors.engine.elector import Election
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster, permissions
from kcm.actors.simulation.campaign.coverage import Coverage, CoverageRecorder
from kcm.actors.simulation.campaign.recorder import Recording
from kcm.actors.simulation.campaign.setting import USUAL, Composition, Setting, run_environment
from kcm.actors.simulation.fault_schedule import LEASE
from kcm.actors.simulation.invariants.common.raised_exceptions import RaisedExceptions
from kcm.actors.simulation.invariants.common.usual import usual_invariants
from kcm.actors.simulation.invariants.common.writes import Quiet
from kcm.actors.simulation.invariants.observer import InvariantChecker, Violation
from kcm.actors.simulation.trials.scenario import Action, do_in_order
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import ServerFailure
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.vocabulary import Fault, FaultKind, format_faults
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.process.memory import collect_afterwards
from kcm.runtime.simulation.trace import Note
from kcm.runtime.simulation.world import HotLoopError

POLL_INTERVAL = 5.0  # seconds between two checks of whether the system has settled
# Seconds to wait after the last fault: an actor may hang for up to 50 s longer, and then have a request in flight.
LATE = 70.0
# The same after a fault of the kinds SILENT: a watch without data is renewed after 120 s, and a call without an outcome
# times out as late. An autoscaler may then need several syncs, 15 s apart, until its status is final.
STALLED = 170.0
SILENT = {FaultKind.WATCH_STALLED, FaultKind.CALL_LOST, FaultKind.ANSWER_LOST}
QUIET = 60.0  # seconds for which a settled system must write nothing
SETTLES = "the system settles after the faults"
ACTIONS_ARE_POSSIBLE = "user actions can be carried out"
REMAINS_SETTLED = "a settled system remains settled"
DEAD_ACTORS_ARE_REPORTED = "dead actors are reported by the manager"
TIME_ADVANCES = "virtual time advances"


class ActionRecord(NamedTuple):
    """User action of a run. Times are virtual seconds.

    number: position among the actions of the scenario.
    at: planned time.
    text: description for reports.
    done: actual time; None if the action was not carried out.
    """

    number: int
    at: float
    text: str
    done: float | None


class Run(Struct):
    """Result of one run.

    setting: name of the setting.
    faults: planned faults.
    chosen: numbers of the user actions that were requested; None for all that the seed draws.
    actions: planned user actions.
    struck: number of times that each kind of fault struck.
    coverage: steps at which the faults struck.
    checked: number of checks of each invariant.
    seconds: duration, in virtual seconds.
    steps: number of messages that actors handled.
    settled: virtual time at which the system had reached its desired state; None if it never did.
    end: end state, for the comparison with other runs; empty if the run has violations.
    mishaps: exceptions that were raised, as lines of the report; empty unless the run has violations.
    digest, notes: hash and notes of the trace; empty unless the run was traced.
    recording: messages of a run that was recorded.
    hints: hints for the report of a failure.
    """

    setting: str
    seed: int
    faults: tuple[Fault, ...]
    chosen: tuple[int, ...] | None
    actions: list[ActionRecord]
    violations: list[Violation]
    struck: Counter[FaultKind]
    coverage: Coverage
    checked: Counter[str]
    seconds: float
    steps: int
    settled: float | None
    end: dict[str, Any]
    mishaps: list[str] = field(default_factory=list)
    digest: str = ""
    notes: list[Note] = field(default_factory=list)
    recording: Recording | None = None
    hints: list[str] = field(default_factory=list)


def replay_command(setting: str, seed: int, faults: Sequence[Fault] | None, actions: Collection[int] | None) -> str:
    """Return the command line that replays a run.

    setting: name of the setting.
    faults, actions: None to use the ones that the seed draws.
    """
    line = "python -m kcm.simulate"
    if setting != USUAL.name:
        line += f" --setting {setting}"
    line += f" --seed {seed}"
    if actions is not None:
        line += f' --actions "{" ".join(map(str, sorted(actions)))}"'
    return line if faults is None else f'{line} --faults "{format_faults(faults)}"'


@collect_afterwards()
def run(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    setting: Setting = USUAL,
    actions: Collection[int] | None = None,
    brief: bool = False,
    traced: bool = False,
    recording: Recording | None = None,
    later: Callable[[SimulatedCluster, Composition, Run], None] | None = None,
) -> Run:
    """Run one seed.

    faults: None to use the ones that the seed draws.
    actions: numbers of user actions; None for all that the seed draws.
    brief: check no other invariants, and stop as soon as the system has settled; for runs of which only the end state
        is used.
    traced: record a trace.
    recording: records the messages of the run.
    later: called at the end of the run with the cluster, the composition and the result; may continue the run.

    Exceptions of the setting's own functions propagate, with a note that contains the setting, the seed and the time.
    """
    try:
        plan = setting.plan(seed) if faults is None else tuple(faults)
        simulation = _Run(
            seed, plan, setting=setting, actions=actions, brief=brief, traced=traced or recording is not None
        )
    except Exception as err:  # for example of a trial's `actions`
        _note_run(err, setting, seed, at=0.0)
        raise
    if recording is not None:
        recording.attach(simulation.cluster, seed=seed)
    try:
        result = simulation.execute()
        if recording is not None:
            recording.record_end(simulation.cluster)
            result.recording = recording
        if later is not None:
            later(simulation.cluster, simulation.composed, result)
    except Exception as err:
        _note_run(err, setting, seed, at=simulation.cluster.clock.monotonic())
        raise
    finally:
        simulation.cluster.world.close()
        if recording is not None:
            recording.close()
    return result


def _note_run(err: Exception, setting: Setting, seed: int, *, at: float) -> None:
    err.add_note(f"in the run of {setting.name}, seed {seed}, at {at:.3f} s")


class _Run:
    def __init__(
        self,
        seed: int,
        plan: tuple[Fault, ...],
        *,
        setting: Setting,
        actions: Collection[int] | None,
        brief: bool,
        traced: bool,
    ) -> None:
        self._seed, self._plan, self._setting, self._brief = seed, plan, setting, brief
        self._chosen = None if actions is None else tuple(sorted(actions))
        self._number = setting.number(seed)
        cloud = FakeCloud() if setting.cloud else None
        self.cluster = SimulatedCluster(
            log=quiet_log(), seed=seed, faults=plan, traced=traced, cloud=cloud, clusters=setting.clusters
        )
        self.cluster.outside = setting.create_outside(run_environment(seed, self.cluster.clock))
        self.composed = setting.composed(self._number)
        self._scenario, self._quiet = setting.scenario(self._number), Quiet(self.cluster)
        drawn = self.composed.actions(self._scenario)
        self._actions = [
            (number, action) for number, action in enumerate(drawn) if actions is None or number in actions
        ]
        self._done: dict[int, float] = {}  # virtual time of each action that was carried out, by its number
        self._settled: float | None = None
        invariants = usual_invariants(self.cluster, self.composed.ownership)
        further = self.composed.invariants(self.cluster, self._scenario)
        self._checker = InvariantChecker(self.cluster, () if brief else [*invariants, self._quiet, *further])
        self._fail = self._checker.fail
        self.cluster.permissions.report = lambda text: self._fail(permissions.NAME, text)
        self._steps = CoverageRecorder(self.cluster, self._checker, plan)
        self._raised = RaisedExceptions(
            self.cluster,
            allowed={trial.controller: trial.raises for trial in self.composed.trials},
            fail=lambda text: self._fail(RaisedExceptions.name, text),
        )

    def execute(self) -> Run:
        cluster, setting, checker = self.cluster, self._setting, self._checker
        setting.prepare(cluster)
        fleet = self._scenario.fleet
        if not setting.clusters:
            cluster.hollow_nodes(
                nodes=fleet.nodes,
                zones=fleet.zones,
                heartbeats=setting.has_heartbeats(),
                volumes=setting.has_volumes(),
                attach=setting.attaches_volumes(),
                devices=setting.devices,
            )
        elections, specs = setting.elections(self._number), setting.specs(cluster.outside)
        for manager in range(max(1, elections)):
            identity = f"manager-{manager + 1}"
            election = (
                # When it loses the lease, the second manager stands by, and the first one ends and is restarted.
                Election(
                    identity=identity,
                    namespace=LEASE[0],
                    name=LEASE[1],
                    stand_by=manager == 1,
                    groups=setting.groups,
                )
                if elections
                else None
            )
            cluster.manager(
                controllers=specs,
                options=self.composed.options,
                election=self._by_home(election, specs) if election is not None and setting.clusters else election,
                keep=True,
            )
        waiting = do_in_order(cluster, [self._numbered(number, action) for number, action in self._actions])
        try:
            self._run_until_settled(waiting)
        except HotLoopError as err:
            self._fail(TIME_ADVANCES, str(err))
        trace = cluster.trace
        checker.elsewhere[RaisedExceptions.name] += 1
        return Run(
            setting=setting.name,
            seed=self._seed,
            faults=self._plan,
            chosen=self._chosen,
            actions=[
                ActionRecord(number, action.at, action.text, self._done.get(number)) for number, action in self._actions
            ],
            violations=checker.violations,
            struck=cluster.injector.struck,
            coverage=self._steps.coverage,
            checked=checker.checked,
            seconds=cluster.clock.monotonic(),
            steps=cluster.world.steps,
            settled=self._settled,
            end={} if checker.violations else self.composed.end_state(cluster),
            mishaps=[] if not checker.violations else list(self._raised.lines()),
            digest="" if trace is None else trace.digest,
            notes=[] if trace is None else trace.notes,
        )

    @staticmethod
    def _by_home(election: Election, specs: Iterable[ControllerSpec]) -> dict[str, Election]:
        return dict.fromkeys((spec.home_cluster for spec in specs), election)

    def _numbered(self, number: int, action: Action) -> Action:
        """Return a copy of a user action that records when it is carried out. number: its number in the scenario."""

        def do(cluster: SimulatedCluster) -> bool:
            try:
                done = action.do(cluster)
            except CommandError as err:
                if not self._setting.has_webhooks() or not isinstance(err.failure, ServerFailure):
                    raise
                done = False  # a webhook cannot be called; a user tries again later
            if done:
                self._done[number] = cluster.clock.monotonic()
            return done

        return action._replace(do=do)

    def _has_failed(self) -> bool:
        return bool(self._checker.violations)

    def _run_until_settled(self, waiting: list[Action]) -> None:
        """Run until the system has settled and remained settled, or an invariant is violated.

        waiting: pending user actions; the list shrinks during the run.
        """
        cluster, setting, composed = self.cluster, self._setting, self.composed
        faults = setting.acting if self._brief else setting.faults
        if cluster.run_until(self._has_failed, within=faults):
            return
        while waiting or not composed.is_settled(cluster):
            # The time limit starts again with each action that was delayed, for example because a name was in use.
            if cluster.clock.monotonic() >= max(faults, *self._done.values(), 0.0) + setting.settled:
                if waiting:
                    self._fail(
                        ACTIONS_ARE_POSSIBLE,
                        f"after {setting.settled:g} s: {'; '.join(action.text for action in waiting)}",
                    )
                if left := [*composed.unsettled(cluster)]:
                    self._fail(SETTLES, f"after {setting.settled:g} s: {'; '.join(left)}")
                return
            if cluster.run_until(self._has_failed, within=POLL_INTERVAL):
                return
        self._settled = cluster.clock.monotonic()
        if not self._brief:
            self._check_remains_settled()

    def _check_remains_settled(self) -> None:
        cluster, checker = self.cluster, self._checker
        late = STALLED if SILENT & {fault.kind for fault in self._plan} else LATE
        # A client of a stale server has not yet seen the last changes, and may still write a status.
        behind = max((fault.seconds for fault in self._plan if fault.kind is FaultKind.LIST_STALE), default=0.0)
        rest = max(self._setting.faults + late - cluster.clock.monotonic(), behind + POLL_INTERVAL)
        if cluster.run_until(self._has_failed, within=rest):
            return
        self._quiet.on = True
        if cluster.run_until(self._has_failed, within=QUIET):
            return
        checker.elsewhere[SETTLES] += 1
        if left := [*self.composed.unsettled(cluster)]:
            self._fail(REMAINS_SETTLED, "; ".join(left))
        for name, running in cluster.processes.items():
            manager = running.system.vitals.of(MANAGER, ManagerVitals)
            for actor, child in manager.children.items() if manager is not None else ():
                checker.elsewhere[DEAD_ACTORS_ARE_REPORTED] += 1
                if not child.alive and not child.gave_up:
                    self._fail(DEAD_ACTORS_ARE_REPORTED, f"{actor} of {name} is dead, but not reported")
