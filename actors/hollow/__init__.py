"""Hollow nodes: kubelets without machines and a small scheduler, so that the embedded cluster's pods run."""
