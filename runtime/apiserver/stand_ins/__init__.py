"""Minimal replacements for two controllers: the garbage collector and the namespace controller.

They serve clusters in which these controllers do not run, as in tests with few controllers. There,
`kubectl delete deployment` would otherwise leave pods behind, and a deleted namespace would stay Terminating. run-kcm
starts its API server without the stand-ins of controllers that it runs, and a simulated cluster removes a stand-in when
it starts a manager with the controller. Only server/ imports this package.
"""
