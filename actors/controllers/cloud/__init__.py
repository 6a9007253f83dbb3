"""Controllers that call a cloud provider.

kube-controller-manager accepts their names, but does not run them; upstream they are part of cloud-controller-manager.
kcm runs them if --cloud-provider names a provider, with the client names and event sources of cloud-controller-manager.
"""
