"""HorizontalPodAutoscaler controller: scales workloads to a number of replicas that is computed from metrics.

Source: kubernetes v1.36 pkg/controller/podautoscaler.
"""

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.spec import SPEC

__all__ = ["SPEC"]
