"""Labels of nodes that have an older name as well: pure.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, reconcileNodeLabels.
"""

from __future__ import annotations

from kcm.protocols.objects import Object, labels_of

# a label → its older name, which has to have the same value
TWINS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def missing_labels(node: Object) -> dict[str, str]:
    """Labels to set, with their values."""
    labels = labels_of(node)
    return {
        older: labels[newer] for newer, older in TWINS.items() if newer in labels and labels.get(older) != labels[newer]
    }
