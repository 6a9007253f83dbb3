"""Evaluations of one policy for one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.objects import Object
from runtime.apiserver.admission.attributes import Attributes
from runtime.apiserver.admission.expressions import seen
from runtime.apiserver.admission.policies.configured import Policy
from runtime.apiserver.admission.policies.matching import Matched
from runtime.apiserver.core.cluster import Cluster

if TYPE_CHECKING:
    from runtime.cel.admission import Run


def run_of(
    cluster: Cluster, policy: Policy, asked: Attributes, found: Matched, params: Object | None, budget: int
) -> Run:
    """Raises StatusError (404) without the namespace."""
    from runtime.cel.admission import Run

    return Run(seen(cluster, asked, found.definition, found.kind, params=params), policy.variables, budget)
