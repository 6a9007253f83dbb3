"""Stand-ins for two controllers of the controller manager: the garbage collector and the namespace controller.

Without them `kubectl delete deployment` would leave pods behind where no such controller runs, and a deleted namespace
would stay Terminating. Each steps back where its controller runs: run-kcm starts its API server without it, and a
simulated cluster drops it when it starts a manager that has the controller. They are for clusters of a few controllers,
as in tests. Only server/ imports this package.
"""
