"""Other pods around one pod to schedule: inter-pod affinity and topology spread, as filters and as scores.

The pods are counted once per attempt. Pods that are only nominated to a node are not counted.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/{filtering,scoring}.go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.hollow.scheduler.node_fit import NodeView, matches_node
from kcm.actors.hollow.scheduler.placements import Placements
from kcm.actors.hollow.scheduler.pod_terms import NO_TERMS, PodTerm, PodTerms, SpreadConstraint
from kcm.protocols.objects import Key, Object, labels_of, namespace_of, split_key
from kcm.protocols.pods import PodFacts

NOT_ATTRACTED = "node(s) didn't match pod affinity rules"
REPELLED = "node(s) didn't match pod anti-affinity rules"
REPELLED_BY_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{NOT_SPREAD} (missing required label)"
HOSTNAME = "kubernetes.io/hostname"
HARD_AFFINITY_WEIGHT = 1  # of a required affinity of an existing pod, when nodes are scored

Domain = tuple[str, str]  # label of nodes, and its value


class _Other(NamedTuple):
    """Pod on a node."""

    namespace: str
    labels: Mapping[str, str]
    demand: Demand
    node: NodeView


class Neighbours:
    """Pods around one pod.

    facts: returns the facts of a pod by its key, or None.
    nodes: returns a node by its name, or None.
    namespace_labels: returns the labels of a namespace.
    """

    def __init__(
        self,
        pod: Object,
        demand: Demand,
        placements: Placements,
        *,
        facts: Callable[[Key], PodFacts | None],
        nodes: Callable[[str], NodeView | None],
        all_nodes: Sequence[NodeView],
        namespace_labels: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._namespace, self._labels = namespace_of(pod), labels_of(pod)
        self._demand, self._terms = demand, demand.terms_about_pods
        self._placements, self._facts, self._node = placements, facts, nodes
        self._namespace_labels = namespace_labels
        self._all_nodes = all_nodes
        self._must = [constraint for constraint in self._terms.spread if constraint.must]
        self._attracting: Counter[Domain] = Counter()  # domains with pods that match all terms of the affinity
        self._repelling: Counter[Domain] = Counter()
        self._repelled_by: Counter[Domain] = Counter()  # domains of pods whose anti-affinity matches this pod
        self._domains: list[Counter[str]] = []  # by required constraint: pods by domain; domains without pods have 0
        self._count_all()

    # Filters.

    def misfits(self, node: NodeView, removed: Collection[Key] = ()) -> tuple[str, ...]:
        """Return the reason why the pods around a node prevent its use; empty if they do not.

        removed: pods of the node that are assumed not to exist.
        """
        if removed:
            for key in removed:
                self._count(key, -1)
            try:
                return self.misfits(node)
            finally:
                for key in removed:
                    self._count(key, 1)
        why = self._spread_problem(node) or self._affinity_problem(node)
        return (why,) if why else ()

    def _spread_problem(self, node: NodeView) -> str:
        for constraint, domains in zip(self._must, self._domains, strict=True):
            domain = node.labels.get(constraint.topology)
            if domain is None:
                return NO_DOMAIN
            least = min(domains.values(), default=0) if len(domains) >= constraint.min_domains else 0
            itself = constraint.selector.matches(self._labels)
            if domains.get(domain, 0) + itself - least > constraint.max_skew:
                return NOT_SPREAD
        return ""

    def _affinity_problem(self, node: NodeView) -> str:
        labels, terms = node.labels, self._terms
        if any(term.topology not in labels for term in terms.attracts):
            return NOT_ATTRACTED
        if any(self._attracting[term.topology, labels[term.topology]] <= 0 for term in terms.attracts):
            # The first of several pods with an affinity to themselves may be scheduled.
            is_first = not +self._attracting and self._matches_all(terms.attracts, self._namespace, self._labels)
            if not is_first:
                return NOT_ATTRACTED
        if any(self._repelling[domain] > 0 for domain in _domains_of(terms.repels, node)):
            return REPELLED
        if self._repelled_by and any(self._repelled_by[domain] > 0 for domain in labels.items()):
            return REPELLED_BY_OTHERS
        return ""

    # Counts.

    def _count_all(self) -> None:
        self._domains = [Counter() for _ in self._must]
        for node in self._all_nodes if self._must else ():
            for constraint, domains in zip(self._must, self._domains, strict=True):
                if self._is_counted(constraint, self._must, node):
                    domains[node.labels[constraint.topology]] += 0
        terms = self._terms
        placements = self._placements
        concerns_all = bool(self._must or terms.attracts or terms.repels)
        for key in placements.all_keys() if concerns_all else placements.with_terms:
            self._count(key, 1)

    def _count(self, key: Key, times: int) -> None:
        other = self._other(key)
        if other is None:
            return
        terms, labels = self._terms, other.node.labels
        if terms.attracts and self._matches_all(terms.attracts, other.namespace, other.labels):
            for domain in _domains_of(terms.attracts, other.node):
                self._attracting[domain] += times
        for term in terms.repels:
            if term.topology in labels and self._matches(term, other.namespace, other.labels):
                self._repelling[term.topology, labels[term.topology]] += times
        for term in other.demand.terms_about_pods.repels:
            if term.topology in labels and self._matches(term, self._namespace, self._labels):
                self._repelled_by[term.topology, labels[term.topology]] += times
        for constraint, domains in zip(self._must, self._domains, strict=True):
            if self._is_spread_with(constraint, key, other) and self._is_counted(constraint, self._must, other.node):
                domains[labels[constraint.topology]] += times

    def _is_spread_with(self, constraint: SpreadConstraint, key: Key, other: _Other) -> bool:
        if other.namespace != self._namespace or not constraint.selector.matches(other.labels):
            return False
        facts = self._facts(key)
        return facts is not None and not facts.deleting

    def _is_counted(self, constraint: SpreadConstraint, all_: Sequence[SpreadConstraint], node: NodeView) -> bool:
        """Report whether the pods of a node count: it has all topologies, and the constraint includes it."""
        if any(other.topology not in node.labels for other in all_):
            return False
        if constraint.honors_affinity and not matches_node(self._demand, node):
            return False
        return not constraint.honors_taints or all(self._demand.tolerates(taint) for taint in node.taints)

    def _other(self, key: Key) -> _Other | None:
        placement = self._placements.get(key)
        facts, node = self._facts(key), None if placement is None else self._node(placement.node)
        if placement is None or facts is None or node is None:
            return None
        return _Other(split_key(key)[0], facts.labels, placement.demand, node)

    def _matches(self, term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
        if namespace not in term.namespaces:
            selector = term.everywhere
            if selector is None or not (selector.empty or selector.matches(self._namespace_labels(namespace))):
                return False
        return term.selector.matches(labels)

    def _matches_all(self, terms: Iterable[PodTerm], namespace: str, labels: Mapping[str, str]) -> bool:
        return all(self._matches(term, namespace, labels) for term in terms)

    # Scores: by node, from 0 to 1.

    def affinity_scores(self, nodes: Sequence[NodeView]) -> list[float] | None:
        """Return the scores by preferred affinity, of this pod and of others; None if nothing is preferred."""
        terms, weights = self._terms, Counter[Domain]()
        placements = self._placements
        for key in placements.all_keys() if terms.prefers else placements.with_terms:
            other = self._other(key)
            if other is None:
                continue
            for domain, weight in self._preferences(other):
                weights[domain] += weight
        if not weights:
            return None
        totals = [sum(weights.get(domain, 0) for domain in node.labels.items()) for node in nodes]
        low, high = min(totals), max(totals)
        return [(total - low) / (high - low) if high > low else 0.0 for total in totals]

    def _preferences(self, other: _Other) -> Iterator[tuple[Domain, int]]:
        theirs, labels = other.demand.terms_about_pods, other.node.labels
        weighted = [
            *((preferred.term, preferred.weight, other.namespace, other.labels) for preferred in self._terms.prefers),
            *((preferred.term, preferred.weight, self._namespace, self._labels) for preferred in theirs.prefers),
            *((term, HARD_AFFINITY_WEIGHT, self._namespace, self._labels) for term in theirs.attracts),
        ]
        for term, weight, namespace, of_pod in weighted:
            if term.topology in labels and self._matches(term, namespace, of_pod):
                yield (term.topology, labels[term.topology]), weight

    def spread_scores(self, nodes: Sequence[NodeView]) -> list[float] | None:
        """Return the scores by constraints that need not be satisfied; None if the pod has none."""
        wanted = [constraint for constraint in self._terms.spread if not constraint.must]
        if not wanted:
            return None
        scored = [node for node in nodes if all(constraint.topology in node.labels for constraint in wanted)]
        totals = dict.fromkeys((node.name for node in scored), 0.0)
        for constraint in wanted:
            counts = self._pods_by_domain(constraint, wanted)
            size = len({node.labels[constraint.topology] for node in scored})
            for node in scored:
                count = counts[node.labels[constraint.topology]]
                totals[node.name] += count * math.log(size + 2) + constraint.max_skew - 1
        rounded = {name: round(total) for name, total in totals.items()}
        low, high = min(rounded.values(), default=0), max(rounded.values(), default=0)
        return [
            0.0 if node.name not in rounded else 1.0 if not high else (high + low - rounded[node.name]) / high
            for node in nodes
        ]

    def _pods_by_domain(self, constraint: SpreadConstraint, wanted: Sequence[SpreadConstraint]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for key in self._placements.all_keys():
            other = self._other(key)
            if other is None or not self._is_spread_with(constraint, key, other):
                continue
            # Pods on the node itself count, whatever the constraint includes.
            if constraint.topology == HOSTNAME or self._is_counted(constraint, wanted, other.node):
                counts[other.node.labels.get(constraint.topology, "")] += 1
        return counts


def _domains_of(terms: Iterable[PodTerm], node: NodeView) -> set[Domain]:
    return {(term.topology, node.labels[term.topology]) for term in terms if term.topology in node.labels}


def is_concerned(terms: PodTerms, placements: Placements) -> bool:
    """Report whether other pods matter for a pod with these terms."""
    return terms is not NO_TERMS or bool(placements.with_terms)
