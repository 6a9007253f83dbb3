"""DaemonSets parsed into immutable, validated values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.field_types import COUNT, MAP, NUMBER, TEXT, CompiledShape, check
from kcm.protocols.integers import parse_int
from kcm.protocols.objects import Key, Object, annotations_of, key_of, metadata, name_of, namespace_of, uid_of
from kcm.protocols.percentages import IntOrString, scaled_value
from kcm.protocols.pods import PodFacts
from kcm.protocols.selectors import LabelSelector, label_selector_of

GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
HASH_LABEL = "controller-revision-hash"
ROLLING_UPDATE = "RollingUpdate"

_SHAPE = CompiledShape(
    {
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
)


class Rolling(NamedTuple):
    """Validated fields of spec.updateStrategy.rollingUpdate."""

    max_unavailable: IntOrString
    max_surge: IntOrString

    @property
    def surges(self) -> bool:
        """Report whether maxSurge allows a second pod on a node during an update. Source: AllowsSurge."""
        return scaled_value(self.max_surge, 1, round_up=True) > 0


class DaemonSet(NamedTuple):
    """A DaemonSet with its fields parsed and validated."""

    obj: Object
    key: Key
    name: str
    namespace: str
    uid: str
    generation: int  # metadata.generation; 0 if it is missing
    selector: LabelSelector
    template: Object
    template_labels: Mapping[str, str]
    template_generation: str | None  # set by old clients in an annotation; None if it is missing or not a number
    min_ready_seconds: int
    rolling: Rolling | None  # None for the strategy OnDelete
    history_limit: int
    status: Mapping[str, Any]
    observed_generation: int
    collision_count: int | None  # None and 0 give different hashes of the template

    @property
    def surges(self) -> bool:
        return self.rolling is not None and self.rolling.surges

    def selects(self, pod: PodFacts) -> bool:
        return self.selector.matches(pod.labels)

    def is_updated(self, pod: PodFacts, hash: str) -> bool:
        """Report whether a pod was created from the current template. Source: IsPodUpdated.

        hash: the current revision's value of HASH_LABEL. The deprecated label GENERATION_LABEL is compared too.
        """
        labels = pod.labels
        if hash and labels.get(HASH_LABEL) == hash:
            return True
        return self.template_generation is not None and labels.get(GENERATION_LABEL) == self.template_generation


def parse_daemon_set(obj: Object) -> DaemonSet:
    """Parse a DaemonSet. Raises ValueError, with the name of the field, if a field is missing or malformed."""
    check(obj, _SHAPE)
    spec = obj.get("spec") or {}
    template = spec.get("template")
    if template is None:
        raise ValueError("spec.template is a map, got None")
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector = selector_of(obj)
    if not selector.matches(labels):
        # Validation forbids this, and upstream does not check it: each new pod would be released at once, and the next
        # one created.
        raise ValueError("spec.selector does not match the labels of spec.template")
    status = obj.get("status") or {}
    limit = spec.get("revisionHistoryLimit")
    return DaemonSet(
        obj=obj,
        key=key_of(obj),
        name=name_of(obj),
        namespace=namespace_of(obj),
        uid=uid_of(obj),
        generation=metadata(obj).get("generation") or 0,
        selector=selector,
        template=template,
        template_labels=labels,
        template_generation=_template_generation(obj),
        min_ready_seconds=spec.get("minReadySeconds") or 0,
        rolling=_rolling(spec.get("updateStrategy") or {}),
        history_limit=10 if limit is None else limit,
        status=status,
        observed_generation=status.get("observedGeneration") or 0,
        collision_count=status.get("collisionCount"),
    )


def selector_of(obj: Object) -> LabelSelector:
    """Parse spec.selector of a DaemonSet. Raises ValueError if it is missing or malformed."""
    check(obj, {"spec": {"selector": MAP}})
    selector = (obj.get("spec") or {}).get("selector")
    if selector is None:
        raise ValueError("spec.selector is a map, got None")
    return label_selector_of(selector)


def _template_generation(obj: Object) -> str | None:
    number = parse_int(annotations_of(obj).get(GENERATION_ANNOTATION))
    return None if number is None else str(number)


def _rolling(strategy: Mapping[str, Any]) -> Rolling | None:
    if strategy.get("type", ROLLING_UPDATE) != ROLLING_UPDATE:
        return None
    given = strategy.get("rollingUpdate") or {}
    limits = [given.get(name) or 0 for name in ("maxUnavailable", "maxSurge")]
    for value in limits:
        scaled_value(value, 1, round_up=True)  # raises ValueError if it is neither a number nor a percentage
    return Rolling(*limits)
