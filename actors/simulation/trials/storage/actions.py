"""User actions on volumes, claims and pods that use them.

Names are not reused after a deletion, because a pod may still use the deleted object for an unknown time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.protocols.objects import Object, make_key
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS

STATIC = "static"  # name of a storage class without an object, whose volumes users create
UNKNOWN = "unknown"  # name of a storage class that does not exist, so that its claims stay unbound
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
    """Yield the actions on one PersistentVolume: create it, and sometimes label and delete it.

    class_: name of its storage class.
    claims: names of claims; the volume is sometimes reserved for one of them.
    attributes: name of its VolumeAttributesClass; "" for none.
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
    """Yield the actions on one claim: create it and up to two pods that use it, and delete them in random order.

    class_: name of its storage class; None for the default class.
    """
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
