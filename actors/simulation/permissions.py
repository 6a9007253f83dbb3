"""Check of the requests of controllers against the permissions that their specs declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcm.actors.options import Options
from kcm.actors.reconciliation.permissions import Grant, grants_by_client, policy_rule
from kcm.actors.simulation.processes import Processes
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.client.api import Request, Response
from kcm.runtime.simulation.network import Witness

NAME = "controllers have the permissions that they need"


class MissingPermissionError(AssertionError):
    """A controller has sent a request that generated RBAC rules would not allow. The text names what to declare."""


class PermissionCheck:
    """Witness of a simulated network. Controllers without declared permissions are not checked.

    report: called with a text for each missing permission, once; a campaign replaces it.
    missing: texts of the missing permissions.
    """

    def __init__(self, processes: Processes) -> None:
        self.missing: list[str] = []
        self.report: Callable[[str], None] = self.missing.append
        self._processes = processes
        self._known: set[str] = set()
        # By process, its start, and the cluster.
        self._grants: dict[tuple[str, int, str], Mapping[str, tuple[Grant, ...] | None]] = {}

    def on(self, cluster: str) -> Witness:
        """Return the witness of the network of a cluster. cluster: "" in a world with one."""
        return _WitnessOfCluster(self, cluster) if cluster else self

    def sent(self, process: str, client: str, request: Request, *, cluster: str = "") -> None:
        """Check a request. cluster: where it goes, in a world with several."""
        running = self._processes.running.get(process)
        if running is None or request.user:
            return
        which = process, running.starts, cluster
        if which not in self._grants:
            self._grants[which] = grants_by_client(running.specs, running.options or Options(), cluster)
        grants = self._grants[which].get(client)
        if grants is None:
            return
        text = missing_permission(client, grants, request, cluster)
        if text and text not in self._known:
            self._known.add(text)
            self.report(text)

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        """Do nothing: `sent` has checked the request."""

    def raise_if_missing(self) -> None:
        """Raise MissingPermissionError for permissions that were found missing since the last call."""
        if self.missing:
            found, self.missing[:] = [*self.missing], []
            raise MissingPermissionError("\n".join(found))


class _WitnessOfCluster:
    """Witness of the network of one of several clusters."""

    def __init__(self, check: PermissionCheck, cluster: str) -> None:
        self._check, self._cluster = check, cluster

    def sent(self, process: str, client: str, request: Request) -> None:
        self._check.sent(process, client, request, cluster=self._cluster)

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        """Do nothing, as PermissionCheck."""


def missing_permission(controller: str, grants: tuple[Grant, ...], request: Request, cluster: str = "") -> str:
    """Return what a request lacks, and how to declare it; "" if it is permitted."""
    info = RequestInfo.of(request.method, request.path, request.query)
    if not info.is_resource_request or info.group in ("authorization.k8s.io", "authentication.k8s.io"):
        return ""
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    namespace = info.namespace if info.in_namespace else ""
    for grant in grants:
        if grant.allows(verb=info.verb, group=info.group, resource=resource, namespace=namespace, name=info.name):
            return ""
    what = f"{resource}.{info.group}" if info.group else resource
    of_cluster = f'.on("{cluster}")' if cluster else ""
    if cluster:
        what = f"{cluster}:{what}"
    elsewhere = sorted(
        {grant.namespace for grant in grants if grant.resource == resource and grant.group == info.group}
    )
    where = f" in namespace {namespace}" if namespace and elsewhere and elsewhere != [""] else ""
    subresource = f', "{info.subresource}"' if info.subresource else ""
    rule = policy_rule(info.group, [resource], [info.verb])
    return (
        f"{controller} may not {info.verb} {what}{where}: declare Permission(<{info.resource}>{of_cluster}, "
        f'("{info.verb}",){subresource}) in the permissions of its spec; the missing rule is {rule}'
    )
