"""Kubelets of the hollow nodes, which report pods and containers as running and execute nothing."""
