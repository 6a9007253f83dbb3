"""Objects that every cluster has from its start, as kube-apiserver creates them itself."""
