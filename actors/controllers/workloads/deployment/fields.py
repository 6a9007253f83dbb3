"""The fields of Deployments and ReplicaSets that decisions rest on, read so that a malformed one is named.

The API server fills in defaults and checks types. What it would never let through can still reach us (a webhook or a
backup that wrote past it), and must stop this one Deployment with an error that says where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.protocols.objects import Object, key_of, metadata

INT32_MAX = 2**31 - 1


def section(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """obj's "spec" or "status"; empty where it has none. Raises ValueError if it is something else than a map."""
    value = obj.get(name)
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise ValueError(f"{key_of(obj)}: {name} is not an object: {value!r}")


def number(obj: Mapping[str, Any], where: str, field: str, default: int = 0) -> int:
    """The whole number obj[where][field]. Raises ValueError if it is something else."""
    part = obj.get(where)
    value = (part if isinstance(part, dict) else section(obj, where)).get(field)
    if value is None:
        return default
    if type(value) is not int:
        raise _no_number(obj, where, field, value)
    return value


def _no_number(obj: Mapping[str, Any], where: str, field: str, value: Any) -> ValueError:
    return ValueError(f"{key_of(obj)}: {where}.{field} is not a whole number: {value!r}")


def limit(deployment: Mapping[str, Any], field: str) -> int | None:
    """A number in spec for which absence, and the greatest int32, mean that there is no limit: then None."""
    value = number(deployment, "spec", field, INT32_MAX)
    return None if value == INT32_MAX else value


def replicas(obj: Mapping[str, Any]) -> int:
    """spec.replicas: the desired number of pods."""
    return number(obj, "spec", "replicas", 1)


def available(obj: Mapping[str, Any]) -> int:
    """status.availableReplicas."""
    return number(obj, "status", "availableReplicas")


def generation(obj: Mapping[str, Any]) -> int:
    """metadata.generation; 0 where there is none."""
    value = metadata(obj).get("generation")
    return value if isinstance(value, int) else 0


def template(obj: Mapping[str, Any]) -> Object:
    """spec.template; empty where there is none. Raises ValueError if it is something else than a map of maps."""
    value = section(obj, "spec").get("template")
    if value is None:
        return {}
    if not isinstance(value, dict) or not isinstance(value.get("metadata") or {}, dict):
        raise ValueError(f"{key_of(obj)}: spec.template is not a pod template: {value!r}")
    return value


def oldest_first(replica_sets: Iterable[Object]) -> list[Object]:
    """By creation, then by name. Source: pkg/controller/controller_utils.go, ReplicaSetsByCreationTimestamp."""
    return sorted(replica_sets, key=creation_order)


def creation_order(replica_set: Mapping[str, Any]) -> tuple[str, str]:
    """A sort key. The API server writes creation times in UTC and whole seconds, whose text sorts as they do."""
    meta = metadata(replica_set)
    return str(meta.get("creationTimestamp") or ""), meta.get("name") or ""


def active(replica_sets: Iterable[Object]) -> list[Object]:
    """Those that have, or ought to have, pods."""
    return [replica_set for replica_set in replica_sets if replicas(replica_set) > 0]


def total_replicas(replica_sets: Iterable[Object]) -> int:
    """How many pods they ought to have together."""
    return sum(map(replicas, replica_sets))


def total_statuses(replica_sets: Iterable[Object], *fields: str) -> list[int]:
    """The sums of some counts in their status, as their controller last saw them. Raises ValueError as number does."""
    totals = [0] * len(fields)
    for replica_set in replica_sets:
        status = section(replica_set, "status")
        for i, field in enumerate(fields):
            value = status.get(field)
            if type(value) is int:
                totals[i] += value
            elif value is not None:
                raise _no_number(replica_set, "status", field, value)
    return totals
