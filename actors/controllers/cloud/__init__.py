"""Controllers that need a cloud.

kube-controller-manager accepts their names, but does not run them. kcm runs them if --cloud-provider names a cloud,
with the clients and event sources of cloud-controller-manager.
"""
