"""Settings of an ApiServer: the resources that it serves, authorization, admission, and optional tasks."""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.admission_plugins import WITHOUT_CONTROLLERS
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.pod_spec.scheduling_groups import with_scheduling_groups
from kcm.runtime.apiserver.registry.admission_settings import AdmissionSettings
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition

SERVICE_RANGES = ("10.96.0.0/16",)


class ApiSettings(Struct, frozen=True, kw_only=True):
    """Settings of one API server. Request handlers receive them in their server context (core.cluster.Cluster).

    A server in its own process reads them from its command line, as part of process.settings.ServerSettings.
    """

    resources: tuple[ResourceDefinition, ...] = BUILT_IN
    # Definitions that are served instead of an aggregated API server whose pods are hollow (metrics.k8s.io).
    stand_ins: tuple[ResourceDefinition, ...] = ()
    # CIDRs of cluster IPs, one for each IP family, the default family first.
    service_ranges: tuple[str, ...] = SERVICE_RANGES
    # Authorize requests by RBAC, and requests of nodes by the pods bound to them. False: every request is allowed.
    role_based: bool = False
    # Enabled admission plugins; by default upstream's, except those that depend on controllers.
    plugins: frozenset[str] = WITHOUT_CONTROLLERS
    # Configuration of admission plugins.
    admission: AdmissionSettings = AdmissionSettings()
    # Record managedFields also of objects that were never applied (server-side apply).
    record_managers: bool = True
    # Keep IPAddresses of cluster IPs even before the server is published at an address.
    keep_ip_addresses: bool = False
    # Run the replacements of the garbage collector and of the namespace controller, see stand_ins/.
    collect_garbage: bool = True
    empty_namespaces: bool = True


def new_registry(settings: ApiSettings) -> Registry:
    """Return a registry of the resources that a server with these settings serves."""
    return Registry(with_scheduling_groups(settings.resources))


BY_DEFAULT = ApiSettings()
