"""A deletion of a Deployment's pod waits for a pod, unless the pod depends on a later action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads import deployment, replicaset
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.actions import create, merge
from kcm.actors.simulation.trials.nodes.actions import Period, silence_nodes
from kcm.actors.simulation.trials.scenario import Action, do_in_order
from kcm.actors.simulation.trials.workloads.actions import delete_one_pod, scale, workload
from kcm.actors.simulation.trials.workloads.deployment import unless_blocked
from kcm.protocols.resources import DEPLOYMENTS
from kcm.runtime.logs.standard_log import quiet_log

KEY = "default/web"
NODES = ("hollow-node-0", "hollow-node-1")
WORKLOADS = (deployment.SPEC, replicaset.SPEC)
RECREATE = {"strategy": {"type": "Recreate"}}


def user_waits_after(*actions: Action, controllers: Sequence[ControllerSpec] = WORKLOADS) -> list[str]:
    """Run the actions, and return the texts of those that are still waiting after half a minute."""
    cluster = SimulatedCluster(log=quiet_log())
    cluster.hollow_nodes(nodes=len(NODES), zones=1)
    cluster.manager(controllers=controllers)
    waiting = do_in_order(cluster, actions)
    cluster.run_for(30)
    return [action.text for action in waiting]


def delete_a_pod(at: float) -> Action:
    return unless_blocked(delete_one_pod(at, "web", 0), KEY)


def web(replicas: int = 2, **spec: Any) -> Action:
    return create(1.0, DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas, "v1", **spec))


def restart(at: float) -> Action:
    return merge(at, DEPLOYMENTS, KEY, {"spec": {"template": {"metadata": {"annotations": {"again": "yes"}}}}})


def resume(at: float) -> Action:
    return merge(at, DEPLOYMENTS, KEY, {"spec": {"paused": False}})


def test_nodes_resume_before_a_pod_deletion_that_waits_for_them() -> None:
    silence = silence_nodes(NODES, Period(5.0, 15.0, ends=True))
    assert user_waits_after(web(**RECREATE), *silence, restart(6.0), delete_a_pod(7.0)) == []


def test_rollout_resumes_before_a_pod_deletion_that_waits_for_it() -> None:
    assert user_waits_after(web(paused=True), delete_a_pod(7.0), resume(8.0)) == []


@pytest.mark.parametrize("strategy", [RECREATE, {}])
def test_action_waits_for_a_pod_that_no_controller_creates(strategy: dict[str, Any]) -> None:
    waiting = user_waits_after(web(**strategy), delete_a_pod(2.0), scale(3.0, DEPLOYMENTS, KEY, 3), controllers=())
    assert len(waiting) == 2
