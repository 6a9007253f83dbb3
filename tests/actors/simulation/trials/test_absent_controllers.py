"""A trial detects that its controller does nothing: the cluster does not settle."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.actors.controllers.apimachinery import garbage_collector, namespace
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.actors.simulation.trials.scenario import do_in_order
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.simulation.trials.settings import setting_with

SECONDS = 150.0  # all user actions have begun by then, and their grace periods have ended
MOST = 12  # scenarios
# The first scenario that does not settle without the controller; scenario 0 for all others.
FIRST = {
    "certificatesigningrequest-approving-controller": 5,
    "certificatesigningrequest-signing-controller": 1,
    "endpointslice-mirroring-controller": 2,
    "job-controller": 1,
    "legacy-serviceaccount-token-cleaner-controller": 2,
    "node-lifecycle-controller": 5,
    "persistentvolumeclaim-protection-controller": 3,
    "pod-garbage-collector-controller": 1,
    "podgroup-protection-controller": 1,
    "selinux-warning-controller": 3,
    "service-lb-controller": 1,
    "taint-eviction-controller": 7,
    "volumeattributesclass-protection-controller": 3,
}
SERVICES_OF = {"endpoints-controller": "endpointslice-controller"}  # trials whose users create the controller's objects


def with_its_users(spec: ControllerSpec) -> Setting:
    """Return a setting with the actions of the controller's trial only, which must detect the absence by itself."""
    acting = SERVICES_OF.get(spec.name, spec.name)
    return replace(
        setting_with(spec),
        with_users=lambda _scenario, trials: [trial for trial in trials if trial.controller == acting],
    )


def unsettled_without(spec: ControllerSpec, number: int) -> list[str]:
    cluster = SimulatedCluster(
        log=quiet_log(),
        cloud=FakeCloud(),
        collect_garbage=spec.name != garbage_collector.SPEC.name,
        empty_namespaces=spec.name != namespace.SPEC.name,
    )
    setting = with_its_users(spec)
    setting.prepare(cluster)
    scenario = setting.scenario(number)
    cluster.hollow_nodes(
        nodes=scenario.fleet.nodes,
        zones=scenario.fleet.zones,
        volumes=setting.has_volumes(),
        attach=setting.attaches_volumes(),
    )
    others = [other for other in setting.specs(None) if other.name != spec.name]
    cluster.manager(controllers=others, options=setting.options(number))
    do_in_order(cluster, setting.composed(number).actions(scenario))
    cluster.run_for(SECONDS)
    return list(TRIALS[spec.name].unsettled(cluster))


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_cluster_without_the_controller_does_not_settle(spec: ControllerSpec) -> None:
    first = FIRST.get(spec.name, 0)
    assert any(unsettled_without(spec, number) for number in [first, *range(MOST)])


def test_first_scenarios_name_existing_controllers() -> None:
    assert {*FIRST, *SERVICES_OF, *SERVICES_OF.values()} <= {spec.name for spec in BUILT_IN}
