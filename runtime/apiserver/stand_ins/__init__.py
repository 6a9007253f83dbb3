"""Stand-ins for two controllers of the controller manager: the garbage collector and the namespace controller.

Without them `kubectl delete deployment` would leave pods behind where no such controller runs, and a deleted namespace
would stay Terminating. The one for the garbage collector steps back where that runs: run-kcm starts its API server
without it, and a simulated cluster drops it when it starts a manager that has one. It is for clusters of a few
controllers, as in tests. The other one goes when the project has the namespace controller. Only server.py imports this
package.
"""
