"""Terms of pods about other pods: affinity, anti-affinity and topology spread constraints.

The API server has merged matchLabelKeys into the label selectors.

Source: kubernetes v1.36 pkg/scheduler/framework/types.go, AffinityTerm; plugins/podtopologyspread/common.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kcm.protocols.node_affinity import REQUIRED, Term, terms_of
from kcm.protocols.objects import Object, namespace_of
from kcm.protocols.selectors import LabelSelector, label_selector_of

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodTerm(Struct, frozen=True):
    """Term of an affinity to pods, or against them.

    namespaces: namespaces of the pods.
    everywhere: selector of further namespaces by their labels, or None.
    topology: label of nodes; nodes with the same value are one domain.
    """

    selector: LabelSelector
    namespaces: tuple[str, ...]
    everywhere: LabelSelector | None
    topology: str


class WeightedTerm(Struct, frozen=True):
    """Preference. weight: negative for anti-affinity."""

    weight: int
    term: PodTerm


class NodePreference(Struct, frozen=True):
    weight: int
    term: Term


class SpreadConstraint(Struct, frozen=True):
    """Topology spread constraint.

    honors_affinity, honors_taints: nodes that the pod's node affinity or taints exclude are not counted.
    """

    topology: str
    selector: LabelSelector
    max_skew: int
    must: bool
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class PodTerms(Struct, frozen=True, kw_only=True):
    """All terms of a pod."""

    attracts: tuple[PodTerm, ...] = ()
    repels: tuple[PodTerm, ...] = ()
    prefers: tuple[WeightedTerm, ...] = ()
    nodes: tuple[NodePreference, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def concern_pods(self) -> bool:
        """Report whether the terms are to be considered for pods that are scheduled later."""
        return bool(self.attracts or self.repels or self.prefers)


NO_TERMS = PodTerms()


def pod_terms(pod: Object) -> PodTerms:
    """Return the terms of a pod. A malformed selector matches nothing."""
    spec, namespace = pod["spec"], namespace_of(pod)
    affinity, constraints = spec.get("affinity"), spec.get("topologySpreadConstraints")
    if not affinity and not constraints:
        return NO_TERMS
    affinity = affinity or {}
    near, away = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    preferred = (affinity.get("nodeAffinity") or {}).get(PREFERRED) or ()
    return PodTerms(
        attracts=_terms(near.get(REQUIRED), namespace),
        repels=_terms(away.get(REQUIRED), namespace),
        prefers=(*_weighted(near, namespace, 1), *_weighted(away, namespace, -1)),
        nodes=tuple(_node_preferences(preferred)),
        spread=tuple(_constraint(constraint) for constraint in constraints or ()),
    )


def _terms(terms: Sequence[Mapping[str, Any]] | None, namespace: str) -> tuple[PodTerm, ...]:
    return tuple(_term(term, namespace) for term in terms or ())


def _term(term: Mapping[str, Any], namespace: str) -> PodTerm:
    namespaces, selector = tuple(term.get("namespaces") or ()), term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = (namespace,)
    everywhere = None if selector is None else _selector(selector)
    return PodTerm(_selector(term.get("labelSelector")), namespaces, everywhere, term.get("topologyKey") or "")


def _weighted(affinity: Mapping[str, Any], namespace: str, sign: int) -> Iterator[WeightedTerm]:
    for preference in affinity.get(PREFERRED) or ():
        weight = int(preference.get("weight") or 0)
        if weight:
            yield WeightedTerm(sign * weight, _term(preference.get("podAffinityTerm") or {}, namespace))


def _node_preferences(preferred: Sequence[Mapping[str, Any]]) -> Iterator[NodePreference]:
    for preference in preferred:
        weight = int(preference.get("weight") or 0)
        for term in terms_of({"nodeSelectorTerms": [preference.get("preference") or {}]}) if weight else ():
            yield NodePreference(weight, term)


def _constraint(constraint: Mapping[str, Any]) -> SpreadConstraint:
    return SpreadConstraint(
        topology=constraint.get("topologyKey") or "",
        selector=_selector(constraint.get("labelSelector")),
        max_skew=int(constraint.get("maxSkew") or 1),
        must=constraint.get("whenUnsatisfiable") != "ScheduleAnyway",
        min_domains=int(constraint.get("minDomains") or 1),
        honors_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
        honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
    )


def _selector(value: Mapping[str, Any] | None) -> LabelSelector:
    try:
        return label_selector_of(value)
    except ValueError:
        return label_selector_of(None)
