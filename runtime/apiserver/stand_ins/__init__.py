"""Stand-ins for two controllers of the controller manager: the garbage collector and the namespace controller.

Without them `kubectl delete deployment` would leave pods behind, and a deleted namespace would stay Terminating. They
go when the project has these controllers. Then this package is deleted, and with it ApiServer's argument
collect_garbage, which leaves them out for a cluster that runs the controllers. Only server.py imports this package.
"""
