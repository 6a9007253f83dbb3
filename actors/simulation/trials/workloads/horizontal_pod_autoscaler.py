"""Simulation trial of the horizontal pod autoscaler: load varies, and users change the autoscaler and its target.

Each target has a total load, which its running pods share. An autoscaler reads the load as a metric of any type, which
contains either the total load or the share of each running pod.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.options import HorizontalPodAutoscalerOptions
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER, controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.workloads.autoscaling import ScalesWithinBounds
from kcm.actors.simulation.metrics_server import GROUPS, WINDOW, metrics_server
from kcm.actors.simulation.trials.actions import create, merge, replace
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.settings import options_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import scale, workload
from kcm.protocols.objects import Object, is_deleting, labels_of, make_key, name_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.quantities import format_quantity
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS, REPLICASETS

BASE = "elastic"
CONTAINER = "c"
SHARE = 10  # load per replica that an autoscaler aims at
LOADS = (0, 1, 2, 3, 4, 6)  # total loads, in shares; no two of them are within the autoscaler's tolerance
BOUNDS = ((1, 5), (1, 8), (2, 6), (3, 3), (2, 4))
SIZES = (0, 1, 2, 5, 7)
OF_THE_WHOLE = ("External", "Object")  # types of metrics with the total load instead of the share of each pod
SECONDS_DOWN = 4.0  # duration of an outage of the metrics
SECONDS_TO_LIST = 5.0  # maximum duration of listing, and of reading a scale and metrics, without faults
CONTROLLER = "horizontal-pod-autoscaler-controller"


def _rules(chance: random.Random, *, window: int) -> Object:
    policies: list[Object] = [
        {"type": "Pods", "value": chance.randint(1, 3), "periodSeconds": chance.choice((15, 30, 45))},
        {"type": "Percent", "value": chance.choice((50, 100)), "periodSeconds": chance.choice((15, 30))},
    ]
    kept, select = policies[: chance.randint(1, 2)], chance.choice(("Max", "Max", "Min"))
    return {"stabilizationWindowSeconds": window, "selectPolicy": select, "policies": kept}


def _behavior(chance: random.Random) -> Object | None:
    if chance.random() < 0.3:
        return None
    return {
        "scaleUp": _rules(chance, window=chance.choice((0, 0, 20))),
        "scaleDown": _rules(chance, window=chance.choice((0, 0, 30, 60))),
    }


def _metric(chance: random.Random, name: str, reference: Object) -> Object:
    """Draw a metric of any type for the spec of an autoscaler.

    name: name of the metric.
    reference: target of the autoscaler.
    """
    target = {"type": "AverageValue", "averageValue": str(SHARE)}
    custom = {"metric": {"name": name}, "target": target}
    kinds: dict[str, Object] = {
        "external": custom,
        "object": {**custom, "describedObject": reference},
        "pods": custom,
        "resource": {"name": "cpu", "target": target},
        "containerResource": {"name": "cpu", "container": CONTAINER, "target": target},
    }
    kind = chance.choice(list(kinds))
    return {"type": kind[0].upper() + kind[1:], kind: kinds[kind]}


def _autoscaler(chance: random.Random, name: str) -> Object:
    lowest, highest = chance.choice(BOUNDS)
    reference = {"apiVersion": REPLICASETS.api_version, "kind": REPLICASETS.kind, "name": name}
    spec: Object = {
        "scaleTargetRef": reference,
        "minReplicas": lowest,
        "maxReplicas": highest,
        "metrics": [_metric(chance, name, reference)],
    }
    behavior = _behavior(chance)
    if behavior is not None:
        spec["behavior"] = behavior
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("autoscaler actions")
    for name in scenario.names(chance, BASE, 2):
        yield from _life(scenario, chance, name)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    key = make_key(NAMESPACE, name)

    def make(at: float) -> Iterator[Action]:
        yield create(at, REPLICASETS, workload(REPLICASETS, name, chance.choice(SIZES[1:]), "v1", pod=scenario.pod))
        yield _load(at, name, chance.choice(LOADS))
        yield create(at, HORIZONTAL_POD_AUTOSCALERS, _autoscaler(chance, name))

    def change_load(at: float) -> Iterator[Action]:
        yield _load(at, name, chance.choice(LOADS))

    def swing_load(at: float) -> Iterator[Action]:
        """Raise the load, lower it, and raise it again within the period of a scaling policy."""
        high, low = chance.choice(LOADS[-2:]), chance.choice(LOADS[:2])
        for number, load in enumerate((high, low, high)):
            yield _load(at + 16.0 * number, name, load)

    def scale_manually(at: float) -> Iterator[Action]:
        yield scale(at, REPLICASETS, key, chance.choice(SIZES))

    def change_bounds(at: float) -> Iterator[Action]:
        lowest, highest = chance.choice(BOUNDS)
        yield merge(at, HORIZONTAL_POD_AUTOSCALERS, key, {"spec": {"minReplicas": lowest, "maxReplicas": highest}})

    def change_behavior(at: float) -> Iterator[Action]:
        yield merge(at, HORIZONTAL_POD_AUTOSCALERS, key, {"spec": {"behavior": _behavior(chance)}})

    def recreate(at: float) -> Iterator[Action]:
        yield replace(at, HORIZONTAL_POD_AUTOSCALERS, key, _autoscaler(chance, name))

    def interrupt_metrics(at: float) -> Iterator[Action]:
        yield _metrics(at, down=True)
        yield _metrics(at + SECONDS_DOWN, down=False)

    changes = (
        change_load,
        change_load,
        swing_load,
        scale_manually,
        change_bounds,
        change_behavior,
        recreate,
        interrupt_metrics,
    )
    yield from scenario.life(chance, make=make, changes=changes, most=5)


def _load(at: float, name: str, replicas: int) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        served, load = metrics_server(cluster), str(replicas * SHARE)
        served.external[name] = [load]
        served.of_objects[name] = {f"{REPLICASETS.name} {name}": load}
        served.of_pods[name] = served.cpu = partial(_share, cluster)
        return True

    return Action(at, f"load of {name} requires {replicas} replicas", do)


def _share(cluster: SimulatedCluster, pod: Object) -> str | None:
    """Return a pod's share of the load of its workload, as a quantity; None if the pod has no load.

    All running pods that are not terminating have equal shares.
    """
    app = labels_of(pod).get("app")
    load = metrics_server(cluster).external.get(app or "")
    if load is None or not _serves(pod):
        return None
    serving = [pod for pod in cluster.shown(PODS, NAMESPACE) if labels_of(pod).get("app") == app and _serves(pod)]
    return f"{_in_thousandths(load) // len(serving)}m"


def _serves(pod: Object) -> bool:
    return pod_facts(pod).phase == "Running" and not is_deleting(pod)


def _in_thousandths(load: list[str]) -> int:
    return int(load[0]) * 1000


def _metrics(at: float, *, down: bool) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        served = metrics_server(cluster)
        (served.down.update if down else served.down.difference_update)(GROUPS)
        return True

    return Action(at, f"metrics are {'down' if down else 'up'}", do)


def _wanted(cluster: SimulatedCluster, autoscaler: Object) -> tuple[int, int] | None:
    """Return (current, expected) number of replicas of the target; None if there is no target or no load."""
    name, spec = name_of(autoscaler), autoscaler["spec"]
    found = [replicaset for replicaset in cluster.shown(REPLICASETS, NAMESPACE) if name_of(replicaset) == name]
    load = metrics_server(cluster).external.get(name)
    if not found or load is None:
        return None
    has = found[0]["spec"]["replicas"]
    if has == 0:
        return 0, 0
    return has, min(max(int(load[0]) // SHARE, spec["minReplicas"]), spec["maxReplicas"])


def _is_new(cluster: SimulatedCluster) -> bool:
    """Report whether the controller may not have synced yet since its start, or does not run.

    The first sync of a new incarnation records the current number of replicas as a recommendation, which is valid for
    the whole stabilization window. So the present state may not be the end state.
    """
    managers = [
        process for process in cluster.processes.values() if any(spec.name == CONTROLLER for spec in process.specs)
    ]
    vitals_by_manager = [
        manager.system.vitals.of(MANAGER, ManagerVitals) for manager in managers if manager.process.alive
    ]
    children = [
        vitals.children.get(controller_name(CONTROLLER))
        for vitals in vitals_by_manager
        if vitals is not None and vitals.leading
    ]
    began = [child.started_at for child in children if child is not None and child.started_at is not None]
    if not began:
        return bool(managers)
    first = options_of(cluster)[HorizontalPodAutoscalerOptions].sync_period + SECONDS_TO_LIST
    return cluster.clock.monotonic() < max(began) + first


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    is_new = _is_new(cluster)
    for autoscaler in cluster.shown(HORIZONTAL_POD_AUTOSCALERS, NAMESPACE):
        replicas, name = _wanted(cluster, autoscaler), name_of(autoscaler)
        if replicas is None:
            continue
        if is_new:
            yield f"autoscaler {name}: its controller has not synced it since its start"
        has, wanted = replicas
        if has != wanted:
            yield f"autoscaler {name}: its target has {has} replicas instead of {wanted}"
        actual, should = _status_fields(autoscaler), _expected_fields(cluster, autoscaler, wanted)
        if _has_young_pods(cluster, autoscaler):
            yield f"autoscaler {name}: pods that have just become ready may still change its recommendation"
        for field, value in should.items():
            if actual[field] != value:
                yield f"autoscaler {name}: {field} is {actual[field]} instead of {value}"


def _has_young_pods(cluster: SimulatedCluster, autoscaler: Object) -> bool:
    """Report whether a pod of the target became ready so recently that it may still change the recommendation.

    The controller must have evaluated a complete sample of the pod's usage twice, after the stabilization window for
    scaling up. Metrics with the total load do not depend on pods.
    """
    spec = autoscaler["spec"]
    (metric,) = spec["metrics"]
    if metric["type"] in OF_THE_WHOLE:
        return False
    up = ((spec.get("behavior") or {}).get("scaleUp") or {}).get("stabilizationWindowSeconds") or 0
    period = options_of(cluster)[HorizontalPodAutoscalerOptions].sync_period
    latest = cluster.clock.now() - (WINDOW + up + 2 * (period + SECONDS_TO_LIST))
    pods = [pod for pod in cluster.shown(PODS, NAMESPACE) if labels_of(pod).get("app") == name_of(autoscaler)]
    return any((pod_facts(pod).ready_since or 0.0) > latest for pod in pods)


def _status_fields(autoscaler: Object) -> Mapping[str, Any]:
    status = autoscaler.get("status") or {}
    conditions = {condition["type"]: condition["reason"] for condition in status.get("conditions") or ()}
    return {
        "currentReplicas": status.get("currentReplicas", 0),
        "desiredReplicas": status.get("desiredReplicas", 0),
        "averages": [_average_in(metric) for metric in status.get("currentMetrics") or ()],
        "AbleToScale": conditions.get("AbleToScale"),
        "ScalingActive": conditions.get("ScalingActive"),
        "ScalingLimited": conditions.get("ScalingLimited"),
    }


def _average_in(metric: Object) -> str | None:
    """Return averageValue of an element of status.currentMetrics; None if the metric was unavailable."""
    type: str = metric["type"]
    of_type: Object = metric.get(type[:1].lower() + type[1:]) or {}
    average: str | None = (of_type.get("current") or {}).get("averageValue")
    return average


def _expected_fields(cluster: SimulatedCluster, autoscaler: Object, wanted: int) -> Mapping[str, Any]:
    """Return the fields of the status that are expected in the end. wanted: expected number of replicas.

    As upstream, the average is rounded up if the metric contains the total load, and down if it contains shares.
    """
    counts = {"currentReplicas": wanted, "desiredReplicas": wanted}
    if wanted == 0:
        return {**counts, "averages": [], "AbleToScale": "SucceededGetScale", "ScalingActive": "ScalingDisabled"}
    spec = autoscaler["spec"]
    load = _in_thousandths(metrics_server(cluster).external[name_of(autoscaler)])
    (metric,) = spec["metrics"]
    thousandths = -(-load // wanted) if metric["type"] in OF_THE_WHOLE else load // wanted
    average = format_quantity(Decimal(thousandths).scaleb(-3))
    fixed = {"averages": [average], "AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound"}
    return {
        **counts,
        **fixed,
        "ScalingLimited": _limit(load // SHARE // 1000, spec["minReplicas"], spec["maxReplicas"]),
    }


def _limit(asked: int, lowest: int, highest: int) -> str:
    if asked > highest:
        return "TooManyReplicas"
    return "TooFewReplicas" if asked < lowest else "DesiredWithinRange"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"HorizontalPodAutoscaler {name_of(autoscaler)}": _wanted(cluster, autoscaler)
        for autoscaler in cluster.shown(HORIZONTAL_POD_AUTOSCALERS, NAMESPACE)
    }


TRIAL = Trial(
    controller=CONTROLLER,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, options: (
        ScalesWithinBounds(cluster, window=options[HorizontalPodAutoscalerOptions].downscale_stabilization),
    ),
)
