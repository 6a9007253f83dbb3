"""Controllers that are at home on different clusters, under faults and with competing managers."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kcm.actors.engine.dispatcher.actor import Dispatcher
from kcm.actors.engine.manager.actor import ControllerManager
from kcm.actors.reconciliation.actor_names import elector_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.failure_reports import must_hold
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting
from kcm.actors.simulation.invariants.observer import Entitled, Fail, Observation
from kcm.actors.simulation.objects import deployment
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import key_of
from kcm.protocols.resources import CONFIGMAPS, DEPLOYMENTS, PODS, Resource
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.plan import draw_plan
from tests.faults.recorded_seeds import must_be_found_by
from tests.support.markers import is_marked, marker

CLUSTERS = ("hub", "edge")


def trial_of(resource: Resource) -> Trial:
    """Return the trial of the controller that marks the ConfigMaps of one cluster."""

    def create(name: str, cluster: SimulatedCluster) -> bool:
        cluster.create(resource, {"metadata": {"name": name}})
        return True

    def unmark(name: str, cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, f"default/{name}") is not None:
            cluster.merge(resource, f"default/{name}", {"data": None})
        return True

    def actions(scenario: Scenario) -> Iterator[Action]:
        chance = scenario.chance(f"marks on {resource.cluster}")
        for number, at in enumerate(scenario.times(chance, chance.randint(1, 4))):
            name = f"{resource.cluster}-{number}"
            yield Action(at, f"{name} is created", functools.partial(create, name))
            if chance.random() < 0.5:
                yield Action(at + chance.uniform(0.5, 9.0), f"{name} is unmarked", functools.partial(unmark, name))

    def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
        for configmap in cluster.shown(resource, "default"):
            if not is_marked(configmap):
                yield f"{key_of(configmap)} on {resource.cluster} is not marked"

    return Trial(
        controller=f"marker-{resource.cluster}",
        actions=actions,
        unsettled=unsettled,
        end_state=lambda cluster: {
            resource.cluster: sorted((key_of(each), each.get("data")) for each in cluster.shown(resource, "default"))
        },
    )


RESOURCES = tuple(CONFIGMAPS.on(cluster) for cluster in CLUSTERS)
SETTING = Setting(
    name="tests.faults.test_several_clusters:SETTING",
    controllers=tuple(map(marker, RESOURCES)),
    clusters=CLUSTERS,
    trials=tuple(map(trial_of, RESOURCES)),
    draw=functools.partial(draw_plan, resources=("*", "configmaps")),
)


@pytest.mark.parametrize("seed", range(4))
def test_configmaps_of_both_clusters_are_marked_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


class Entitlements:
    """Records the processes and clusters of the Leases that were held, and has no condition."""

    name = "entitlements"
    observes = (Entitled,)

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def observe(self, observation: Observation, _fail: Fail) -> None:
        if isinstance(observation, Entitled):
            self.seen.add((observation.process, observation.cluster))


def test_a_lost_lease_of_one_cluster_moves_only_its_controllers() -> None:
    found = Entitlements()
    setting = replace(SETTING, invariants=lambda _cluster, _scenario: (found,), elections=lambda _scenario: 2)
    faults = parse_faults("partition 5..30 process=manager cluster=edge; partition 5..30 process=manager-2 cluster=hub")
    must_hold(1, faults=faults, setting=setting)
    assert ("manager-2", "edge") in found.seen
    assert ("manager-2", "hub") not in found.seen


def test_coverage_names_the_cluster_of_a_step() -> None:
    result = check(3, parse_faults("outcome-lost 0..30 resource=configmaps cluster=edge"), setting=SETTING)
    assert not result.violations
    struck = {step for kind, step in result.coverage.struck if kind == "outcome-lost"}
    assert struck == {("marker-edge", "patch edge:configmaps")}


def all_controllers_stop(self: ControllerManager, _elector: str, reason: str) -> None:
    for elector in (elector_name(cluster) for cluster in CLUSTERS):
        stand_by(self, elector, reason)


stand_by = ControllerManager._stand_by


@pytest.mark.parametrize(
    ("seed", "of", "method", "bug"),
    [
        pytest.param(7, Dispatcher, "_elector_of", lambda _self, _sender: "elector:hub", id="one lease for all"),
        pytest.param(15, ControllerManager, "_stand_by", all_controllers_stop, id="a lost lease stops all"),
    ],
)
def test_confusion_of_leases_is_found(seed: int, of: type, method: str, bug: Any) -> None:
    with mock.patch.object(of, method, bug):
        must_be_found_by(seed, lambda each: bool(check(each, setting=SETTING).violations))
        violations = [str(each) for each in check(seed, setting=SETTING).violations]
    assert any("is not marked" in each for each in violations), violations


def with_workloads(cluster: SimulatedCluster) -> None:
    """Run the workload controllers of kcm on edge, as its own controller manager does, with hollow nodes."""
    cluster.hollow_nodes(cluster="edge", heartbeats=False)
    cluster.manager(controllers=WORKLOADS, cluster="edge")
    cluster.create(DEPLOYMENTS.on("edge"), deployment("web", replicas=2))


def ready_replicas(cluster: SimulatedCluster) -> int | None:
    web = cluster.get(DEPLOYMENTS.on("edge"), "default/web") or {}
    found: int | None = web.get("status", {}).get("readyReplicas")
    return found


def test_controllers_of_a_cluster_work_beside_those_of_several() -> None:
    setting = replace(
        SETTING,
        prepare=with_workloads,
        unsettled=lambda cluster: [] if ready_replicas(cluster) == 2 else ["web on edge is not ready"],
    )
    must_hold(2, setting=setting)


def test_hollow_nodes_are_on_one_of_several_clusters() -> None:
    cluster = SimulatedCluster(clusters=CLUSTERS)
    with pytest.raises(ValueError, match="no cluster ''"):
        cluster.hollow_nodes()
    with_workloads(cluster)
    assert cluster.run_until(lambda: ready_replicas(cluster) == 2, within=60)
    assert sorted(cluster.processes) == ["edge-hollow", "edge-manager"]
    assert cluster.list(PODS.on("hub")) == []
