"""horizontal-pod-autoscaler-controller: sets how many pods a workload has by what metrics say of them.

Source: kubernetes v1.36 pkg/controller/podautoscaler.
"""

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.spec import SPEC

__all__ = ["SPEC"]
