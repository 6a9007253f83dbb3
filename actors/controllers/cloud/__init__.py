"""Controllers that need a cloud.

kube-controller-manager knows their names and skips them; here they run where --cloud-provider names a cloud. Their
clients and event sources are those of cloud-controller-manager.
"""
