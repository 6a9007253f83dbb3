"""deployment-controller."""

from actors.workloads.deployment.reconciler import DeploymentReconciler

__all__ = ["DeploymentReconciler"]
