"""Comparable snapshots of two managers' results: generated names, uids, times and versions become placeholders.

Names of ReplicaSets are compared, except for templates that contain the time of a restart.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from tests.e2e.kubectl import Kubectl, Object

Snapshot = dict[str, list[str]]

HASH_LABEL = "pod-template-hash"
RESOURCES = ("replicationcontrollers", "apps/v1/deployments", "apps/v1/replicasets", "pods")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ADDRESS = re.compile(r"\b(\d{1,3}\.){3}\d{1,3}\b")
SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
HASH = re.compile(r"(?<=[-=])[bcdfghjklmnpqrstvwxz2456789]{8,10}(?![a-z0-9])")
AGE = re.compile(r"\b\d+(ms|s|m\d+s|m)\b")
COMBINED = "(combined from similar events)"
# Of the kubelet, the scheduler and the server: the same programs in both runs, but chance decides.
CHANCE = {"resourceVersion", "nodeName", "containerID", "topology.kubernetes.io/zone"}


def snapshot(kubectl: Kubectl) -> Snapshot:
    """Return the objects of the namespace by resource, and the events of managers: each as JSON, sorted."""
    replica_sets = kubectl.items("apps/v1/replicasets")
    words = {_hash_of(replica_set): _hash_word(replica_set) for replica_set in replica_sets if _hash_of(replica_set)}
    found: Snapshot = {}
    for resource in RESOURCES:
        objects = kubectl.items(resource)
        if resource == "pods":  # their status is the kubelet's and the scheduler's: not who wrote it, but what counts
            for pod in objects:
                fields = pod["metadata"]["managedFields"]
                pod["metadata"]["managedFields"] = [entry for entry in fields if entry.get("subresource") != "status"]
        for obj in objects:
            if (obj["spec"].get("strategy") or {}).get("type") == "Recreate":
                _ignore_progress(obj)
        found[resource] = sorted(_text(normalised(obj, kubectl.namespace, words)) for obj in objects)
    found["events"] = _event_texts(normalised(kubectl.items("events"), kubectl.namespace, words))
    return found


def _ignore_progress(deployment: Object) -> None:
    """Remove what chance decides in the condition Progressing of a Deployment that recreates its pods.

    All of its pods are of one revision whenever a sync finds none of the old ones. The condition then keeps the name of
    the old ReplicaSet, and its place among the conditions. Source: syncRolloutStatus.
    """
    conditions = deployment["status"]["conditions"]
    conditions.sort(key=lambda condition: condition["type"])
    for condition in conditions:
        if condition["type"] == "Progressing" and condition["reason"] == "NewReplicaSetAvailable":
            condition["message"] = re.sub('"[^"]*"', '"<some>"', condition["message"])


def _event_texts(events: list[Object]) -> list[str]:
    """Return the events with their total counts, without the names of pods."""
    times: Counter[str] = Counter()
    for event in events:
        if event["source"].get("component", "").endswith("-controller"):
            event["metadata"] = {"name": event["metadata"]["name"]}
            times[_text({field: value for field, value in event.items() if field != "count"})] += event["count"]
    # The number of failed creations depends on timing, and so whether their events are combined.
    failed = {text for text in times if '"FailedCreate"' in text}
    return sorted(
        text if text in failed else f"{count} times {text}"
        for text, count in times.items()
        if not (text in failed and COMBINED in text)
    )


def settled_snapshot(kubectl: Kubectl) -> Snapshot:
    """Return the snapshot after it was unchanged for a second, since events are written late."""
    before = snapshot(kubectl)
    for _ in range(30):
        time.sleep(1.0)
        now = snapshot(kubectl)
        if now == before:
            return now
        before = now
    raise AssertionError(f"there is no end to the changes\n{kubectl.state()}")


def versions(kubectl: Kubectl) -> dict[str, str]:
    """Return the resourceVersions of the workloads by uid."""
    return {
        obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"]
        for resource in RESOURCES
        if resource != "pods"
        for obj in kubectl.items(resource)
    }


def differences(real: Mapping[str, list[str]], ours: Mapping[str, list[str]]) -> str:
    """Return a diff of all resources, or "" if they are equal."""
    lines: list[str] = []
    for what in sorted(real.keys() | ours.keys()):
        theirs, own = ("\n".join(side.get(what, [])).splitlines() for side in (real, ours))
        lines += unified_diff(theirs, own, f"{what}, the real one", f"{what}, ours", lineterm="")
    return "\n".join(lines)


def assert_equal_after_each(
    stages: Sequence[Callable[..., None]], real: Sequence[Snapshot], ours: Sequence[Snapshot]
) -> None:
    """Fail the test with a diff if the snapshots after a stage differ."""
    for stage, theirs, own in zip(stages, real, ours, strict=True):
        found = differences(theirs, own)
        assert not found, f"{stage.__name__}\n{found}"


def texts_of(objects: Iterable[Any], run: str) -> list[str]:
    """Return the objects as sorted JSON. run: the namespace, with which the names of other objects begin as well."""
    texts = (_text(normalised(obj, run, {run: "RUN"})) for obj in objects)
    return sorted(text.replace(run, "RUN") for text in texts)


def event_lines(events: Iterable[Object], run: str) -> list[str]:
    """Return the events with their sources, without counts, which depend on retries and resyncs."""
    return sorted(
        {
            f"{event['involvedObject']['kind']} {event['involvedObject']['name']} {event['source'].get('component')} "
            f"{event['type']} {event['reason']} {event['message']}".replace(run, "RUN")
            for event in events
        }
    )


def normalised(value: Any, namespace: str, words: dict[str, str], field: str = "") -> Any:
    """Return the object with placeholders. words: placeholders by pod template hash."""
    match value:
        case dict():
            return {
                _plain(key, namespace, words): normalised(child, namespace, words, key) for key, child in value.items()
            }
        case list() if field == "managedFields":
            return sorted((normalised(child, namespace, words) for child in value), key=_text)
        case list():
            return [normalised(child, namespace, words, field) for child in value]
        case str() if field in CHANCE:
            return f"<{field}>"
        case str():
            return _plain(value, namespace, words)
        case _:
            return value


def plain_print(text: str, namespace: str) -> list[str]:
    """Return kubectl's output without column widths, names and ages, with sorted lines."""
    return sorted(" ".join(AGE.sub("<age>", _plain(line, namespace, {})).split()) for line in text.splitlines())


def _plain(text: str, namespace: str, words: dict[str, str]) -> str:
    for hash, word in words.items():
        text = text.replace(hash, word)
    text = TIME.sub("<time>", text.replace(namespace, "<namespace>"))
    text = ADDRESS.sub("<address>", UID.sub("<uid>", text))
    text = HASH.sub("<hash>", SUFFIX.sub("-<suffix>", text))
    return re.sub(r"\.[0-9a-f]{16}$", ".<stamp>", text)


def _hash_of(replica_set: Object) -> str:
    found: str = replica_set["metadata"].get("labels", {}).get(HASH_LABEL, "")
    return found


def _hash_word(replica_set: Object) -> str:
    """Return image and hash; for a template that contains the time of a restart, as only its hash varies, the image."""
    template = replica_set["spec"]["template"]
    restarted = "kubectl.kubernetes.io/restartedAt" in template["metadata"].get("annotations", {})
    image = template["spec"]["containers"][0]["image"]
    return f"<{image} restarted>" if restarted else f"<{image} {_hash_of(replica_set)}>"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1)
