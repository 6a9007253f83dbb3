"""Seeded runs of a controller with external calls to a fake, with all kinds of faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.reconciliation import Reconciliation, Watch, call, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.failure_reports import must_hold
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.setting import RunEnvironment, Setting
from kcm.actors.simulation.trials.actions import create as user_creates
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from kcm.runtime.faults.vocabulary import OF_CALLS, parse_faults
from kcm.runtime.simulation.plan import draw_plan
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


class FakeDirectory:
    """Fake directory that assigns a number to each name; a name that is entered again keeps its number."""

    def __init__(self, environment: RunEnvironment) -> None:
        self._next = environment.chance.randrange(1000)
        self.numbers: dict[str, int] = {}
        self.asked: list[str] = []

    def enter(self, name: str) -> int:
        self.asked.append(name)
        if name not in self.numbers:
            self._next += 1
            self.numbers[name] = self._next
        return self.numbers[name]


class Enrolment:
    def __init__(self, tables: Tables, directory: FakeDirectory) -> None:
        self._configmaps, self._directory = tables[CONFIGMAPS], directory

    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._configmaps.get(key)
        if configmap is not None and "number" not in (configmap.get("data") or {}):
            number = yield from call(self._directory.enter, key, timeout=10)
            yield from must(patch(CONFIGMAPS, key, {"data": {"number": str(number)}}))


class Careless(Enrolment):
    """Reconciler whose calls have a new name for each attempt, so that a lost outcome causes duplicates."""

    attempts = 0

    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._configmaps.get(key)
        if configmap is not None and "number" not in (configmap.get("data") or {}):
            Careless.attempts += 1
            number = yield from call(self._directory.enter, f"{key} {Careless.attempts}", timeout=10)
            yield from must(patch(CONFIGMAPS, key, {"data": {"number": str(number)}}))


def spec(directory: FakeDirectory, reconciler: Any = Enrolment) -> ControllerSpec:
    return ControllerSpec(
        name="enrolment-controller",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
        build=lambda context: reconciler(context.tables, directory),
    )


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("enrolment")
    for number, at in enumerate(scenario.times(chance, chance.randint(2, 5))):
        yield user_creates(at, CONFIGMAPS, {"metadata": {"name": f"entry-{number}"}})


def unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    directory: FakeDirectory = cluster.outside
    for configmap in cluster.shown(CONFIGMAPS, "default"):
        name = f"default/{configmap['metadata']['name']}"
        number = (configmap.get("data") or {}).get("number")
        if name.startswith("default/entry") and number != str(directory.numbers.get(name)):
            yield f"{name} has not the number that the directory gave it"


class OneEntryEach:
    name = "the directory has one entry for each name"

    def __init__(self, directory: FakeDirectory) -> None:
        self._directory = directory

    def observe(self, _observation: Any, fail: Any) -> None:
        names = [name.partition(" ")[0] for name in self._directory.numbers]
        for name in {name for name in names if names.count(name) > 1}:
            fail(f"{name} was entered {names.count(name)} times")


TRIAL = Trial(
    controller="enrolment-controller",
    actions=actions,
    unsettled=unsettled,
    invariants=lambda cluster, _options: (OneEntryEach(cluster.outside),),
)
SETTING = Setting(
    name="tests.faults.test_calls:SETTING",
    outside=FakeDirectory,
    controllers=lambda directory: (spec(directory),),
    trials=(TRIAL,),
)


@pytest.mark.parametrize("seed", range(8))
def test_each_name_is_entered_once_with_any_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


def test_call_with_a_new_name_per_retry_is_found() -> None:
    careless = replace(SETTING, controllers=lambda directory: (spec(directory, Careless),))
    assert any(run(seed, setting=careless).violations for seed in range(40))
    result = run(0, parse_faults("answer-lost most=1"), setting=careless)
    assert "was entered 2 times" in result.violations[0].text


def test_faults_of_calls_are_drawn_for_settings_with_calls() -> None:
    def kinds(setting: Setting) -> set[Any]:
        return {fault.kind for seed in range(60) for fault in setting.plan(seed)}

    assert kinds(SETTING) >= set(OF_CALLS)
    assert kinds(replace(SETTING, draw=partial(draw_plan, resources=("configmaps",)))) >= set(OF_CALLS)
    assert not kinds(Setting()) & set(OF_CALLS)
    assert not kinds(replace(SETTING, calls=False)) & set(OF_CALLS)


def test_fake_outlives_its_managers_and_is_recreated_for_each_run() -> None:
    directories: list[FakeDirectory] = []

    def later(cluster: SimulatedCluster, *_: object) -> None:
        directories.append(cluster.outside)
        assert cluster.processes["manager"].starts > 1

    crashed = parse_faults("process-crashed 8..9; process-crashed 15..16")
    for _ in range(2):
        assert not run(4, crashed, setting=SETTING, later=later).violations
    assert directories[0] is not directories[1]
    assert directories[0].asked == directories[1].asked, "a seed determines it"


def test_controllers_that_need_a_missing_outside_are_refused() -> None:
    with pytest.raises(TypeError, match="a function of its `outside`"):
        Setting(controllers=lambda directory: (spec(directory),))
