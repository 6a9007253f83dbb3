"""Simulation trial of the SELinux warning controller: pods with several labels and policies share volumes.

The controller has no effect on objects, so the trial compares its metric, which shows all present conflicts, with the
pods of the cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Any

from kcm.actors.controllers.storage.selinux_warning import (
    CONFLICTS,
    FINAL,
    LABEL,
    MOUNT_OPTION,
    POLICY,
    RECURSIVE,
    SPEC,
)
from kcm.actors.engine.vitals import ManagerVitals
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.volumes import SharedVolumesOnly
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, make_key, name_of
from kcm.protocols.resources import CSI_DRIVERS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import is_bound, is_of, phase_of, volume_name_of

NAMES, DRIVER, CLASS = "labelled", "selinux.example.com", "labelled"
LEVELS = ("", "s0:c1,c2", "s0:c1,c2", "s0:c98,c99")
Row = tuple[str, str, str, str, str]  # property, pod, its value, other pod, its value


def _actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("selinux warning actions")
    shared = chance.choice((0, 1, 2, 2))
    if not shared:
        return
    made, *changed = scenario.times(chance, 3, first=0.5)
    driver = {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False, "seLinuxMount": chance.random() < 0.8}}
    yield create(made, CSI_DRIVERS, driver)
    for at in changed[: chance.randint(0, 2)]:
        yield merge(at, CSI_DRIVERS, DRIVER, {"spec": {"seLinuxMount": chance.random() < 0.7}})
    for number in range(shared):
        yield from _volume_actions(scenario, chance, f"{NAMES}-{number}")


def _volume_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one volume: create it and its claim, and two to five pods that use it."""
    common: Object = {"accessModes": ["ReadWriteMany"], "storageClassName": CLASS}
    source = {"csi": {"driver": DRIVER, "volumeHandle": name}}
    volume = {**common, **source, "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain"}
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    first, second = chance.sample(scenario.times(chance, 2, first=0.6), 2)
    yield create(first, PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": volume})
    yield create(second, PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": claim})
    for number in range(chance.randint(2, 5)):
        made, removed = scenario.times(chance, 2, first=0.6)
        user = f"{name}-{number}"
        yield create(made, PODS, _pod(chance, user, name))
        if chance.random() < 0.3:
            key = make_key(NAMESPACE, user)
            yield unless_gone(delete(round(removed + 0.01, 2), PODS, key), PODS, key)


def _pod(chance: random.Random, name: str, claim: str) -> Object:
    context: Object = {}
    if level := chance.choice(LEVELS):
        context["seLinuxOptions"] = {"level": level}
    if policy := chance.choice(("", "", MOUNT_OPTION, RECURSIVE)):
        context["seLinuxChangePolicy"] = policy
    spec = {
        "securityContext": context,
        "containers": [{"name": "c", "image": "v1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _expected(cluster: SimulatedCluster) -> set[Row]:
    """Return the conflicts of the trial's pods. It is simpler than in the controller: labels have a level only."""
    driver = cluster.get(CSI_DRIVERS, DRIVER)
    mounts = driver is not None and driver["spec"].get("seLinuxMount") is True
    volumes = {name_of(volume): volume for volume in cluster.shown(PERSISTENT_VOLUMES)}
    claims = {
        name_of(claim)
        for claim in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)
        if is_bound(claim) and volume_name_of(claim) in volumes and is_of(volumes[volume_name_of(claim)], claim)
    }
    users: dict[str, list[tuple[str, str, str]]] = {}  # (pod, label, policy) by claim
    for pod in cluster.shown(PODS, NAMESPACE):
        claim = _claim_of(pod)
        if claim in claims and phase_of(pod) not in FINAL:
            users.setdefault(claim, []).append((name_of(pod), *_use_of(pod, mounts=mounts)))
    found: set[Row] = set()
    for pods in users.values():
        for (name, label, policy), (other, its_label, its_policy) in permutations(pods, 2):
            if policy != its_policy:
                found.add((POLICY, name, policy, other, its_policy))
            if label != its_label:
                found.add((LABEL, name, label, other, its_label))
    return found


def _claim_of(pod: Object) -> str:
    if not name_of(pod).startswith(f"{NAMES}-"):
        return ""
    name: str = pod["spec"]["volumes"][0].get("persistentVolumeClaim", {}).get("claimName", "")
    return name


def _use_of(pod: Object, *, mounts: bool) -> tuple[str, str]:
    context: Mapping[str, Any] = pod["spec"].get("securityContext") or {}
    level = (context.get("seLinuxOptions") or {}).get("level") or ""
    if not mounts or not level or context.get("seLinuxChangePolicy") == RECURSIVE:
        return "", RECURSIVE
    return f":::{level}", MOUNT_OPTION


def _shown(cluster: SimulatedCluster) -> set[Row] | None:
    """Return the conflicts that the leading manager shows; None if no manager leads."""
    for running in cluster.processes.values():
        if not running.process.alive or all(spec.name != SPEC.name for spec in running.specs):
            continue
        vitals = running.system.vitals.of(MANAGER, ManagerVitals)
        if vitals is not None and vitals.leading:
            families = {family.name: series for family, series in running.system.metrics.collect()}
            rows = (labels for labels, _ in families.get(CONFLICTS.name, ()))
            return {(what, pod, value, other, its) for what, _, pod, value, _, other, its in rows}
    return None


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    expected, shown = _expected(cluster), _shown(cluster)
    if shown is None and expected:
        yield "no manager shows conflicts of SELinux labels"
    elif shown is not None:
        for what, pod, *_ in sorted(expected - shown):
            yield f"a conflict of {what} of pod {pod} is not shown"
        for what, pod, *_ in sorted(shown - expected):
            yield f"a conflict of {what} of pod {pod} is shown, which does not exist"


TRIAL = Trial(
    controller=SPEC.name,
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda _cluster, _options: (SharedVolumesOnly(),),
)
