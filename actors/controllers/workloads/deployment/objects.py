"""Deployments and ReplicaSets parsed into immutable, validated values.

Each version of an object is parsed once. The API server fills in defaults and checks types, but malformed objects can
still exist, for example if a backup was restored past validation. A malformed object stops the syncs of one Deployment
only, with an error that names the field.

Source: kubernetes v1.36 pkg/controller/deployment/util/deployment_util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.protocols.integers import parse_int, parse_uint
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    is_deleting,
    key_of,
    labels_of,
    metadata,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.percentages import IntOrString, scaled_value
from kcm.protocols.selectors import LabelSelector, label_selector_of

ROLLING_UPDATE, RECREATE = "RollingUpdate", "Recreate"

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Annotations that belong to one object each, and are not copied between a Deployment and its ReplicaSets.
NEVER_COPIED = frozenset({REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO, LAST_APPLIED})

INT32_MAX = 2**31 - 1
_COUNTS = range(INT32_MAX + 1)


class Deployment(NamedTuple):
    """A Deployment with its fields parsed and validated."""

    obj: Object
    key: Key
    name: str
    namespace: str
    uid: str
    generation: int  # 0 if the object has none
    is_deleting: bool
    annotations: Mapping[str, str]
    selector: LabelSelector
    template: Object
    replicas: int
    paused: bool
    strategy: str  # spec.strategy.type; "" if it is unset
    max_surge: int  # pods above `replicas`; 0 unless the strategy is RollingUpdate
    max_unavailable: int  # pods of `replicas` that may be missing; 0 unless the strategy is RollingUpdate
    min_ready_seconds: int
    progress_deadline: int | None  # seconds without progress after which a rollout has failed; None: never
    history_limit: int | None  # None keeps all old ReplicaSets
    status: Mapping[str, Any]
    collision_count: int | None  # None and 0 give different hashes of the template

    @property
    def conditions(self) -> Any:
        return self.status.get("conditions")


class ReplicaSet(NamedTuple):
    """A ReplicaSet with its fields parsed and validated."""

    obj: Object
    name: str
    uid: str
    generation: int  # 0 if the object has none
    is_deleting: bool
    created: tuple[str, str]  # sort key: by creation, then by name
    annotations: Mapping[str, str]
    revision: int | None  # 0 without an annotation, None if it is not a number
    desired_replicas: int | None  # size of the Deployment when this ReplicaSet was sized; None if missing or invalid
    max_replicas: int | None  # `desired_replicas` plus surge; None if missing or invalid
    template: Object
    replicas: int
    min_ready_seconds: int
    status: Mapping[str, Any]
    observed_generation: int
    status_replicas: int
    ready_replicas: int
    available_replicas: int
    terminating_replicas: int | None  # None if the ReplicaSet controller does not count them

    @property
    def conditions(self) -> Any:
        return self.status.get("conditions")


def parse_deployment(obj: Object) -> Deployment:
    """Parse a Deployment. Raises ValueError, with the name of the field, if a field is malformed.

    An unknown strategy is accepted here, and rejected later with unexpected_strategy.
    """
    selector = selector_of(obj)
    desired = _number(obj, "spec", "replicas", 1)
    surge, unavailable = _fenceposts(obj, desired)
    status = _section(obj, "status")
    for field in ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
        _number(obj, "status", field)
    collisions = _number(obj, "status", "collisionCount")
    return Deployment(
        obj=obj,
        key=key_of(obj),
        name=name_of(obj),
        namespace=namespace_of(obj),
        uid=uid_of(obj),
        generation=_generation(obj),
        is_deleting=is_deleting(obj),
        annotations=annotations_of(obj),
        selector=selector,
        template=_template(obj),
        replicas=desired,
        paused=bool(_section(obj, "spec").get("paused")),
        strategy=strategy_type(obj),
        max_surge=surge,
        max_unavailable=min(unavailable, desired) if desired else 0,
        min_ready_seconds=_number(obj, "spec", "minReadySeconds"),
        progress_deadline=_limit(obj, "progressDeadlineSeconds"),
        history_limit=_limit(obj, "revisionHistoryLimit"),
        status=status,
        collision_count=None if status.get("collisionCount") is None else collisions,
    )


def parse_replica_set(obj: Object) -> ReplicaSet:
    """Parse a ReplicaSet. Raises ValueError, with the name of the field, if a field is malformed."""
    status = _section(obj, "status")
    terminating = _number(obj, "status", "terminatingReplicas")
    return ReplicaSet(
        obj=obj,
        name=name_of(obj),
        uid=uid_of(obj),
        generation=_generation(obj),
        is_deleting=is_deleting(obj),
        # The API server writes creation times in UTC and whole seconds, whose text sorts as they do.
        created=(str(metadata(obj).get("creationTimestamp") or ""), name_of(obj)),
        annotations=annotations_of(obj),
        revision=revision_of(obj),
        desired_replicas=replicas_annotation(obj, DESIRED_REPLICAS),
        max_replicas=replicas_annotation(obj, MAX_REPLICAS),
        template=_template(obj),
        replicas=_number(obj, "spec", "replicas", 1),
        min_ready_seconds=_number(obj, "spec", "minReadySeconds"),
        status=status,
        observed_generation=_number(obj, "status", "observedGeneration"),
        status_replicas=_number(obj, "status", "replicas"),
        ready_replicas=_number(obj, "status", "readyReplicas"),
        available_replicas=_number(obj, "status", "availableReplicas"),
        terminating_replicas=None if status.get("terminatingReplicas") is None else terminating,
    )


def selector_of(obj: Object) -> LabelSelector:
    """Parse spec.selector of a Deployment. Raises ValueError if it is missing or malformed."""
    selector = _section(obj, "spec").get("selector")
    if not isinstance(selector, dict):
        raise ValueError(f"deployment {key_of(obj)} has invalid label selector: {selector!r}")
    try:
        return label_selector_of(selector)
    except ValueError as err:
        raise ValueError(f"deployment {key_of(obj)} has invalid label selector: {err}") from err


def strategy_type(obj: Mapping[str, Any]) -> str:
    """Return spec.strategy.type of a Deployment, or "" if it is unset.

    Raises ValueError if spec.strategy is malformed.
    """
    return str(_strategy(obj).get("type") or "")


def unexpected_strategy(deployment: Deployment) -> ValueError:
    """Return the error to raise for a strategy that is neither RollingUpdate nor Recreate."""
    return ValueError(f"{deployment.key}: unexpected deployment strategy type: {deployment.strategy}")


def resolve_fenceposts(
    max_surge: IntOrString | None, max_unavailable: IntOrString | None, desired: int
) -> tuple[int, int]:
    """Resolve maxSurge and maxUnavailable into numbers of pods, for a Deployment of `desired` pods. None counts as 0.

    Percentages of surge are rounded up, of unavailable pods down. If both are 0, one pod may be unavailable, because
    otherwise a rollout could not proceed.

    Raises ValueError if a value is neither a number nor a percentage. Source: ResolveFenceposts.
    """
    surge = scaled_value(0 if max_surge is None else max_surge, desired, round_up=True)
    unavailable = scaled_value(0 if max_unavailable is None else max_unavailable, desired, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def revision_of(obj: Mapping[str, Any]) -> int | None:
    """Return the revision number in a ReplicaSet's annotation: 0 if it is missing, None if it is not a number."""
    return parse_int(annotations_of(obj).get(REVISION) or "0")


def replicas_annotation(obj: Mapping[str, Any], name: str) -> int | None:
    """Return the number in the annotation `name` of a ReplicaSet (DESIRED_REPLICAS or MAX_REPLICAS).

    Returns None if the annotation is missing or not a non-negative int32. Source: getNonNegativeInt32FromAnnotation.
    """
    return parse_uint(annotations_of(obj).get(name), _COUNTS)


def with_annotations(obj: Mapping[str, Any], annotations: Mapping[str, str]) -> Object:
    """Return a copy of the object whose annotations are replaced by these."""
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "annotations": dict(annotations)}}


def copyable(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that may be copied between a Deployment and its ReplicaSets."""
    return {name: value for name, value in annotations.items() if name not in NEVER_COPIED}


def pod_template_labels(deployment: Deployment) -> Mapping[str, str]:
    return labels_of(deployment.template)


def oldest_first(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort ReplicaSets by creation time, then by name. Source: ReplicaSetsByCreationTimestamp."""
    return sorted(replica_sets, key=lambda replica_set: replica_set.created)


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets whose spec.replicas is above 0. Source: FilterActiveReplicaSets."""
    return [replica_set for replica_set in replica_sets if replica_set.replicas > 0]


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the sum of spec.replicas. Source: GetReplicaCountForReplicaSets."""
    return sum(replica_set.replicas for replica_set in replica_sets)


def _section(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object's spec or status; empty if it is missing. Raises ValueError if it is not a map."""
    value = obj.get(name)
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise ValueError(f"{key_of(obj)}: {name} is not an object: {value!r}")


def _number(obj: Mapping[str, Any], where: str, field: str, default: int = 0) -> int:
    part = obj.get(where)
    value = (part if isinstance(part, dict) else _section(obj, where)).get(field)
    if value is None:
        return default
    if type(value) is not int:
        raise ValueError(f"{key_of(obj)}: {where}.{field} is not a whole number: {value!r}")
    return value


def _limit(obj: Mapping[str, Any], field: str) -> int | None:
    # The API server defaults these fields, and clients set the greatest int32 for "no limit".
    value = _number(obj, "spec", field, INT32_MAX)
    return None if value == INT32_MAX else value


def _generation(obj: Mapping[str, Any]) -> int:
    value = metadata(obj).get("generation")
    return value if isinstance(value, int) else 0


def _template(obj: Mapping[str, Any]) -> Object:
    value = _section(obj, "spec").get("template")
    if value is None:
        return {}
    if not isinstance(value, dict) or not isinstance(value.get("metadata") or {}, dict):
        raise ValueError(f"{key_of(obj)}: spec.template is not a pod template: {value!r}")
    return value


def _strategy(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    strategy = _section(obj, "spec").get("strategy") or {}
    if not isinstance(strategy, dict) or not isinstance(strategy.get("rollingUpdate") or {}, dict):
        raise ValueError(f"{key_of(obj)}: spec.strategy is not a deployment strategy: {strategy!r}")
    return strategy


def _fenceposts(obj: Mapping[str, Any], desired: int) -> tuple[int, int]:
    strategy = _strategy(obj)
    if strategy.get("type") != ROLLING_UPDATE:
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    try:
        return resolve_fenceposts(rolling.get("maxSurge"), rolling.get("maxUnavailable"), desired)
    except ValueError as err:
        raise ValueError(f"{key_of(obj)}: spec.strategy.rollingUpdate: {err}") from err
