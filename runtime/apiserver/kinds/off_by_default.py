"""The kinds that kube-apiserver serves only where it is told to: no beta version is on by default.

A program that wants one hands it over: ApiServer(resources=(*BUILT_IN, *OFF_BY_DEFAULT), …). Two more are served all
the same, since a controller of ours acts on them: PodCertificateRequest and ClusterTrustBundle (built_in.py).

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.coordination import lease_candidate
from runtime.apiserver.registry.definitions import ResourceDefinition

OFF_BY_DEFAULT: tuple[ResourceDefinition, ...] = (lease_candidate.RESOURCE,)
