"""Disruption controller: computes how many pods of each PodDisruptionBudget may be evicted.

Source: kubernetes v1.36 pkg/controller/disruption. See also docs/disruption-budgets.md.
"""

from kcm.actors.controllers.workloads.disruption.spec import SPEC

__all__ = ["SPEC"]
