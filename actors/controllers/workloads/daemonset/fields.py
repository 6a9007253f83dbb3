"""The fields of DaemonSets that decisions rest on, read so that a malformed one is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.integers import parse_int
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.percentages import IntOrString, scaled_value
from kcm.protocols.pods import PodFacts
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.protocols.shapes import COUNT, MAP, NUMBER, TEXT, check

GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
HASH_LABEL = "controller-revision-hash"
ROLLING_UPDATE = "RollingUpdate"

_SHAPE = {
    "metadata": {"annotations": MAP},
    "spec": {
        "selector": MAP,
        "template": {"metadata": {"labels": MAP}, "spec": MAP},
        "minReadySeconds": COUNT,
        "revisionHistoryLimit": COUNT,
        "updateStrategy": {"type": TEXT, "rollingUpdate": MAP},
    },
    "status": {"observedGeneration": NUMBER, "collisionCount": NUMBER},
}


class Rolling(NamedTuple):
    """spec.updateStrategy.rollingUpdate."""

    max_unavailable: IntOrString
    max_surge: IntOrString

    @property
    def surges(self) -> bool:
        """Whether a node may have two pods for a while. Source: AllowsSurge."""
        return scaled_value(self.max_surge, 1, round_up=True) > 0


class DaemonSpec(NamedTuple):
    """A DaemonSet's spec and status, read and checked.

    generation: of the template, as old clients count it; None without the annotation, or if it is no number.
    rolling: None for the strategy OnDelete.
    """

    selector: LabelSelector
    template: Object
    template_labels: Mapping[str, str]
    generation: str | None
    min_ready_seconds: int
    rolling: Rolling | None
    history_limit: int
    status: Mapping[str, Any]
    collision_count: int | None

    @property
    def surges(self) -> bool:
        return self.rolling is not None and self.rolling.surges

    def selects(self, pod: PodFacts) -> bool:
        return self.selector.matches(pod.labels)

    def is_updated(self, pod: PodFacts, hash: str) -> bool:
        """Whether a pod is of the current template: by the hash or by the older count. Source: IsPodUpdated."""
        labels = pod.labels
        if hash and labels.get(HASH_LABEL) == hash:
            return True
        return self.generation is not None and labels.get(GENERATION_LABEL) == self.generation


def daemon_spec(daemon_set: Object) -> DaemonSpec:
    """Raises ValueError that names the field that is missing or of the wrong type."""
    check(daemon_set, _SHAPE)
    spec = daemon_set.get("spec") or {}
    template = spec.get("template")
    if template is None:
        raise ValueError("spec.template is a map, got None")
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = selector_of(daemon_set)
    if not selector.matches(labels):
        # Validation forbids it, and upstream does not look: each new pod would be released at once, and the next made.
        raise ValueError("spec.selector does not match the labels of spec.template")
    status = daemon_set.get("status") or {}
    limit = spec.get("revisionHistoryLimit")
    return DaemonSpec(
        selector=selector,
        template=template,
        template_labels=labels,
        generation=_generation(daemon_set),
        min_ready_seconds=spec.get("minReadySeconds") or 0,
        rolling=_rolling(spec.get("updateStrategy") or {}),
        history_limit=10 if limit is None else limit,
        status=status,
        collision_count=status.get("collisionCount"),
    )


def selector_of(daemon_set: Object) -> LabelSelector:
    """Raises ValueError if it is missing or malformed."""
    check(daemon_set, {"spec": {"selector": MAP}})
    selector = (daemon_set.get("spec") or {}).get("selector")
    if selector is None:
        raise ValueError("spec.selector is a map, got None")
    return label_selector_of(selector)


def _generation(daemon_set: Object) -> str | None:
    number = parse_int(annotations_of(daemon_set).get(GENERATION_ANNOTATION))
    return None if number is None else str(number)


def _rolling(strategy: Mapping[str, Any]) -> Rolling | None:
    """Raises ValueError on what is neither a number nor a percentage."""
    if strategy.get("type", ROLLING_UPDATE) != ROLLING_UPDATE:
        return None
    given = strategy.get("rollingUpdate") or {}
    most = [given.get(name) or 0 for name in ("maxUnavailable", "maxSurge")]
    for value in most:
        scaled_value(value, 1, round_up=True)
    return Rolling(*most)
