"""User actions on volumes, claims and pods that use them.

Names are not reused after a deletion, because it is unknown for how long a pod still uses the object.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.protocols.objects import Object, make_key
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS

STATIC = "static"  # name of a class without a StorageClass object, whose volumes users create
SIZES = ("1Gi", "2Gi", "5Gi")
MODES = (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteMany", "ReadWriteOnce"])


def volume_actions(
    scenario: Scenario,
    chance: random.Random,
    name: str,
    *,
    class_: str,
    claims: Sequence[str] = (),
    attributes: str = "",
) -> Iterator[Action]:
    """Create a volume, for any claim or for one of `claims`, and sometimes delete it.

    attributes: name of its VolumeAttributesClass.
    """
    made, changed, removed = scenario.times(chance, 3, first=0.5)
    spec: Object = {
        "capacity": {"storage": chance.choice(SIZES)},
        "accessModes": chance.choice(MODES),
        "persistentVolumeReclaimPolicy": chance.choice(("Retain", "Retain", "Delete")),
        "storageClassName": class_,
        "csi": {"driver": "example.com", "volumeHandle": name},
    }
    if attributes:
        spec["volumeAttributesClassName"] = attributes
    if claims and chance.random() < 0.2:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": chance.choice(claims)}
    yield create(made, PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    if chance.random() < 0.2:
        labelled: Object = {"metadata": {"labels": {"seen": "yes"}}}
        yield unless_gone(merge(changed, PERSISTENT_VOLUMES, name, labelled), PERSISTENT_VOLUMES, name)
    if chance.random() < 0.3:
        yield unless_gone(delete(removed, PERSISTENT_VOLUMES, name), PERSISTENT_VOLUMES, name)


def claim_actions(scenario: Scenario, chance: random.Random, name: str, class_: str | None) -> Iterator[Action]:
    """Create a claim and up to two pods that use it, and delete claim and pods in random order."""
    made, *times = scenario.times(chance, 6, first=0.5)
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": chance.choice(SIZES)}}}
    if class_ is not None:
        spec["storageClassName"] = class_
    if class_ == STATIC and chance.random() < 0.25:
        spec["volumeName"] = f"disk-{chance.randrange(6)}"
    yield create(made, PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    key = make_key(NAMESPACE, name)
    for number in range(chance.randint(0, 2)):
        user = f"user-{name}-{number}"
        begins, ends = sorted(chance.sample(times, 2))
        yield create(begins, PODS, _pod(user, name))
        if chance.random() < 0.7:
            user_key = make_key(NAMESPACE, user)
            yield unless_gone(delete(round(ends + 0.01, 2), PODS, user_key), PODS, user_key)
    if chance.random() < 0.5:
        at = round(chance.choice(times) + 0.02, 2)
        yield unless_gone(delete(at, PERSISTENT_VOLUME_CLAIMS, key), PERSISTENT_VOLUME_CLAIMS, key)


def _pod(name: str, claim: str) -> Object:
    spec = {
        "containers": [{"name": "c", "image": "v1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
