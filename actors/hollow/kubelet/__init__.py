"""The kubelets of hollow nodes: they report pods and containers as running, and execute nothing."""
