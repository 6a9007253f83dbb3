"""deployment-controller."""

from actors.controllers.workloads.deployment.reconciler import DeploymentReconciler

__all__ = ["DeploymentReconciler"]
