"""The trial of the horizontal pod autoscaler: its load comes and goes, users change what it may do, and its target."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from actors.controllers.workloads.horizontal_pod_autoscaler.options import HorizontalPodAutoscalerOptions
from actors.engine.vitals import ManagerVitals
from actors.reconciliation.actor_names import MANAGER, controller_name
from actors.simulation import SimulatedCluster
from actors.simulation.invariants.autoscaling import KeepsToItsBounds
from actors.simulation.metrics_server import EXTERNAL, metrics_server
from actors.simulation.trials.actions import create, merge, replace
from actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from actors.simulation.trials.settings import options_of
from actors.simulation.trials.trial import Trial
from actors.simulation.trials.workloads.actions import scale, workload
from protocols.objects import Object, make_key, name_of
from protocols.quantities import format_quantity
from protocols.resources import HORIZONTAL_POD_AUTOSCALERS, REPLICASETS

BASE = "elastic"
SHARE = 10  # of the load, that one replica is to have
LOADS = (0, 1, 2, 3, 4, 6)  # replicas' worth: so far from each other that none is within the tolerance of another
BOUNDS = ((1, 5), (1, 8), (2, 6), (3, 3), (2, 4))
SIZES = (0, 1, 2, 5, 7)
SECONDS_DOWN = 4.0  # for which the metrics cannot be had
SECONDS_TO_LIST = 5.0  # and to read the scale and the metrics: the most, once nothing is disturbed
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


def _autoscaler(chance: random.Random, name: str) -> Object:
    lowest, highest = chance.choice(BOUNDS)
    target = {"type": "AverageValue", "averageValue": str(SHARE)}
    spec: Object = {
        "scaleTargetRef": {"apiVersion": REPLICASETS.api_version, "kind": REPLICASETS.kind, "name": name},
        "minReplicas": lowest,
        "maxReplicas": highest,
        "metrics": [{"type": "External", "external": {"metric": {"name": name}, "target": target}}],
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

    def loaded(at: float) -> Iterator[Action]:
        yield _load(at, name, chance.choice(LOADS))

    def swinging(at: float) -> Iterator[Action]:
        """There and back, within the period of a policy."""
        high, low = chance.choice(LOADS[-2:]), chance.choice(LOADS[:2])
        for number, load in enumerate((high, low, high)):
            yield _load(at + 16.0 * number, name, load)

    def scaled_by_hand(at: float) -> Iterator[Action]:
        yield scale(at, REPLICASETS, key, chance.choice(SIZES))

    def bound_otherwise(at: float) -> Iterator[Action]:
        lowest, highest = chance.choice(BOUNDS)
        yield merge(at, HORIZONTAL_POD_AUTOSCALERS, key, {"spec": {"minReplicas": lowest, "maxReplicas": highest}})

    def behaves_otherwise(at: float) -> Iterator[Action]:
        yield merge(at, HORIZONTAL_POD_AUTOSCALERS, key, {"spec": {"behavior": _behavior(chance)}})

    def made_anew(at: float) -> Iterator[Action]:
        yield replace(at, HORIZONTAL_POD_AUTOSCALERS, key, _autoscaler(chance, name))

    def unmeasured(at: float) -> Iterator[Action]:
        yield _metrics(at, down=True)
        yield _metrics(at + SECONDS_DOWN, down=False)

    changes = (loaded, loaded, swinging, scaled_by_hand, bound_otherwise, behaves_otherwise, made_anew, unmeasured)
    yield from scenario.life(chance, make=make, changes=changes, most=5)


def _load(at: float, name: str, replicas: int) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        metrics_server(cluster).external[name] = [str(replicas * SHARE)]
        return True

    return Action(at, f"the load of {name} is that of {replicas}", do)


def _metrics(at: float, *, down: bool) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        served = metrics_server(cluster)
        (served.down.add if down else served.down.discard)(EXTERNAL)
        return True

    return Action(at, f"metrics are {'down' if down else 'up'}", do)


def _wanted(cluster: SimulatedCluster, autoscaler: Object) -> tuple[int, int] | None:
    """How many replicas its target has, and how many it should have; None without a target, or a load."""
    name, spec = name_of(autoscaler), autoscaler["spec"]
    found = [one for one in cluster.shown(REPLICASETS, NAMESPACE) if name_of(one) == name]
    load = metrics_server(cluster).external.get(name)
    if not found or load is None:
        return None
    has = found[0]["spec"]["replicas"]
    if has == 0:
        return 0, 0
    return has, min(max(int(load[0]) // SHARE, spec["minReplicas"]), spec["maxReplicas"])


def _is_new(cluster: SimulatedCluster) -> bool:
    """Whether the controller's first look is still to come, or nobody leads.

    It begins with what the target has as if that were recommended, and says so for the whole window: what an earlier
    one said last is not the end.
    """
    managers = [one for one in cluster.processes.values() if any(spec.name == CONTROLLER for spec in one.specs)]
    said = [one.system.vitals.of(MANAGER, ManagerVitals) for one in managers if one.process.alive]
    children = [one.children.get(controller_name(CONTROLLER)) for one in said if one is not None and one.leading]
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
            yield f"autoscaler {name}: its controller has yet to look at it for the first time"
        has, wanted = replicas
        if has != wanted:
            yield f"autoscaler {name}: its target has {has} replicas, it should have {wanted}"
        said, should = _said(autoscaler), _to_be_said(cluster, name, wanted)
        for field, value in should.items():
            if said[field] != value:
                yield f"autoscaler {name}: {field} is {said[field]}, it should be {value}"


def _said(autoscaler: Object) -> Mapping[str, Any]:
    status = autoscaler.get("status") or {}
    conditions = {one["type"]: one["reason"] for one in status.get("conditions") or ()}
    return {
        "currentReplicas": status.get("currentReplicas", 0),
        "desiredReplicas": status.get("desiredReplicas", 0),
        "averages": [_average_in(one) for one in status.get("currentMetrics") or ()],
        "AbleToScale": conditions.get("AbleToScale"),
        "ScalingActive": conditions.get("ScalingActive"),
    }


def _average_in(metric: Object) -> str | None:
    """None of one that could not be had."""
    average: str | None = ((metric.get("external") or {}).get("current") or {}).get("averageValue")
    return average


def _to_be_said(cluster: SimulatedCluster, name: str, wanted: int) -> Mapping[str, Any]:
    """After a look at which there was nothing to do, so that the next one writes nothing."""
    counts = {"currentReplicas": wanted, "desiredReplicas": wanted}
    if wanted == 0:
        return {**counts, "averages": [], "AbleToScale": "SucceededGetScale", "ScalingActive": "ScalingDisabled"}
    (load,) = metrics_server(cluster).external[name]
    average = format_quantity(Decimal(-(-int(load) * 1000 // wanted)).scaleb(-3))
    said = {"averages": [average], "AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound"}
    return {**counts, **said}


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"HorizontalPodAutoscaler {name_of(one)}": _wanted(cluster, one)
        for one in cluster.shown(HORIZONTAL_POD_AUTOSCALERS, NAMESPACE)
    }


TRIAL = Trial(
    controller=CONTROLLER,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, options: (
        KeepsToItsBounds(cluster, window=options[HorizontalPodAutoscalerOptions].downscale_stabilization),
    ),
)
