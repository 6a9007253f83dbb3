"""Metrics of the resource claim controller.

Source: kubernetes v1.36 pkg/controller/resourceclaim/metrics/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kcm.protocols.objects import Object
from kcm.protocols.resource_claims import ResourceClaimFacts
from kcm.runtime.metrics.registry import Family, Metrics, Reading
from kcm.runtime.tables.lister import Lister

CREATES = Family(
    name="resourceclaim_controller_creates_total",
    kind="counter",
    help="Number of ResourceClaims creation requests, categorized by creation status and admin access",
    labels=("status", "admin_access"),
)
CLAIMS = Family(
    name="resourceclaim_controller_resource_claims",
    kind="gauge",
    help=(
        "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be "
        "'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty "
        "(manually created by a user)."
    ),
    labels=("allocated", "admin_access", "source"),
)


class ResourceClaimMetrics:
    """Metrics of created claims, and of the claims that exist, which are counted at each scrape."""

    def __init__(self, metrics: Metrics, claims: Lister[Object]) -> None:
        self._metrics, self._claims = metrics, claims
        self._shown: set[tuple[str, ...]] = set()
        metrics.add_source(self._count, name=CLAIMS.name)

    def created(self, *, succeeded: bool, admin_access: bool) -> None:
        self._metrics.counter(CREATES, "success" if succeeded else "failure", _flag(admin_access)).inc()

    def _count(self) -> Iterable[Reading]:
        """Count the claims. Combinations of labels without claims are not shown."""
        counts = Counter(labels_of(entry.facts) for entry in self._claims.watched_entries())
        for labels in self._shown - counts.keys():
            self._metrics.remove(CLAIMS, *labels)
        self._shown = set(counts)
        return [(CLAIMS, labels, float(number)) for labels, number in counts.items()]


def labels_of(claim: ResourceClaimFacts) -> tuple[str, str, str]:
    return _flag(claim.allocated), _flag(claim.admin_access), claim.source


def _flag(value: bool) -> str:
    return "true" if value else "false"
