"""Node route controller: creates routes in the cloud for the podCIDRs of nodes, and reports them in node status.

A pass compares all nodes with all routes of the cloud. It starts every --route-reconciliation-period. With the feature
gate CloudControllerManagerWatchBasedRoutesReconciliation it starts when a node is added or deleted, when podCIDRs or
addresses of a node change, and at resyncs, but at most every 10 s.

In: nodes, and the cloud's routes. Out: routes created and deleted in the cloud; nodes' condition NetworkUnavailable;
events FailedToCreateRoute.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go. Differences: a
creation that met a conflict is retried immediately, not after 100 ms; the first pass, not the start of the process,
detects that a cloud does not support routes; the condition of a node is computed from its current version, read after
the calls to the cloud. With the feature gate, a pass with a failure is repeated after 10 s; upstream repeats it only if
the routes could not be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kcm.actors.controllers.cloud.node_route.plan import RoutePlan, is_ours, network_condition, plan_routes
from kcm.actors.controllers.shared.cluster_ranges import Network, pod_cidrs
from kcm.actors.reconciliation import (
    Because,
    Reconciliation,
    RequeueAfter,
    Step,
    get_live,
    in_batches,
    merge_status,
    record,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.cloud import NOT_SUPPORTED, CreateRoute, DeleteRoute, ListRoutes
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Conflict, Done, Invalid, NotFound, Outcome
from kcm.protocols.objects import Object, uid_of
from kcm.protocols.resources import NODES
from kcm.protocols.routes import Route, decode_routes, encode_route
from kcm.runtime.flags.values import format_duration
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

TRIES = 5  # attempts to create one route, if creations meet conflicts
SHORTEST_PERIOD = 10.0  # seconds between the starts of two passes, with the feature gate
BATCH = 200  # calls or patches sent together


class NodeRouteReconciler:
    """Reconciler of the routes in the cloud. Each sync compares all nodes with all routes."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        cluster: str,
        clusters: Sequence[Network],
        period: float,
        synced: Callable[[], None],
    ) -> None:
        """Create the reconciler.

        cluster: value of --cluster-name.
        clusters: value of --cluster-cidr.
        period: seconds between the starts of two passes.
        synced: callback at the start of each pass, which counts it in the metrics.
        """
        self._nodes, self._clock, self._log = tables[NODES], clock, log
        self._cluster, self._clusters, self._period, self._synced = cluster, clusters, period, synced
        self._supported = True  # False once the cloud has returned that it does not support routes
        self._failures = 0  # in the current pass
        self._next_at = float("-inf")  # with the feature gate: monotonic time at which the next pass may begin

    def reconcile_routes(self) -> Reconciliation:
        """Run one pass over all nodes and routes, and schedule the next pass `period` seconds after its start."""
        if not self._supported:
            return None
        began = self._clock.monotonic()
        yield from self._reconcile()
        return RequeueAfter(max(0.0, began + self._period - self._clock.monotonic()))

    def reconcile(self, _key: str) -> Reconciliation:
        """Run one pass over all nodes and routes after a change of a node, at most every 10 s.

        Used only with the feature gate CloudControllerManagerWatchBasedRoutesReconciliation.
        """
        if not self._supported:
            return None
        now = self._clock.monotonic()
        if now < self._next_at:
            yield Because(f"runs at most every {SHORTEST_PERIOD:.0f} s")
            return RequeueAfter(self._next_at - now)
        self._next_at = now + SHORTEST_PERIOD
        yield from self._reconcile()
        return RequeueAfter(max(0.0, self._next_at - self._clock.monotonic())) if self._failures else None

    def _reconcile(self) -> Step[None]:
        """List the routes of the cloud, and create and delete routes as the nodes require."""
        self._synced()
        self._failures = 0
        outcome: Outcome = yield ListRoutes(self._cluster)
        match outcome:
            case Done(body):
                yield from self._pass(decode_routes(body))
            case Invalid(code=code) if code == NOT_SUPPORTED:
                self._supported = False
                yield Because("the cloud does not support routes")
                self._log.warning(
                    "configure-cloud-routes is set, but cloud provider does not support routes. Will not configure "
                    "cloud provider routes."
                )
            case _:
                yield Because(f"routes could not be listed: {outcome.message}")
                self._fail("routes could not be listed", error=outcome.message)

    def _fail(self, event: str, **facts: str) -> None:
        self._failures += 1
        self._log.error(event, **facts)

    def _pass(self, routes: Sequence[Route]) -> Step[None]:
        """Send the required changes of routes, and write the nodes' conditions. routes: all routes of the cloud."""
        unclear = yield from self._fetch_changed_nodes(routes)
        self._failures += len(unclear)
        nodes = {entry.key: self._nodes.object_of(entry) for entry in self._nodes.entries()}
        plan = plan_routes(nodes.values(), routes, self._clusters)
        plan = replace(plan, deletions=[route for route in plan.deletions if route.node not in unclear])
        if plan.creations or plan.deletions:
            yield Because(
                f"{len(routes)} routes for {counted(len(nodes), 'node')}: creates {len(plan.creations)}, "
                f"deletes {len(plan.deletions)}"
            )
        deletions = [DeleteRoute(self._cluster, encode_route(route)) for route in plan.deletions]
        if plan.deletions_first:
            self._deleted(plan, (yield from in_batches(deletions, BATCH)))
            deletions = []
        began = self._clock.monotonic()
        creations = [self._creation(route, nodes) for route in plan.creations]
        outcomes = yield from in_batches([*deletions, *creations], BATCH)
        if deletions:
            self._deleted(plan, outcomes[: len(deletions)])
        created = yield from self._created(plan, nodes, creations, outcomes[len(deletions) :], began)
        yield from self._write_conditions(plan, nodes, created)

    def _fetch_changed_nodes(self, routes: Sequence[Route]) -> Step[set[str]]:
        """Fetch the nodes of routes that do not match the podCIDRs in the table, because the table may be stale.

        Afterwards the lister returns the live versions of these nodes. Returns the names of the nodes that could not
        be fetched; their routes are not deleted in this pass.
        """
        names = sorted(
            {
                route.node
                for route in routes
                if route.node
                and is_ours(route, self._clusters)
                and route.destination not in pod_cidrs(self._nodes.get(route.node) or {})
            }
        )
        outcomes = yield from in_batches([get_live(NODES, name, as_informer=True) for name in names], BATCH)
        return {name for name, outcome in zip(names, outcomes, strict=True) if not isinstance(outcome, Done | NotFound)}

    def _creation(self, route: Route, nodes: dict[str, Object]) -> Command:
        return CreateRoute(self._cluster, uid_of(nodes[route.node]), encode_route(route))

    def _deleted(self, plan: RoutePlan, outcomes: Sequence[Outcome]) -> None:
        for route, outcome in zip(plan.deletions, outcomes, strict=True):
            facts = {"route": route.name, "cidr": route.destination, "node": route.node}
            if isinstance(outcome, Done):
                self._log.info("route deleted", **facts)
            else:
                self._fail("route could not be deleted", **facts, error=outcome.message)

    def _created(
        self,
        plan: RoutePlan,
        nodes: dict[str, Object],
        creations: Sequence[Command],
        outcomes: Sequence[Outcome],
        began: float,
    ) -> Step[set[tuple[str, str]]]:
        """Process the outcomes of the route creations: retry conflicts, and record events about failures.

        creations: the commands, in the order of plan.creations; `outcomes` are those of the first attempts.
        began: monotonic time at which the first attempts were sent.
        Returns (node name, destination) of each route that was created.
        """
        created = set()
        for route, command, first in zip(plan.creations, creations, outcomes, strict=True):
            outcome, tries = first, 1
            while not isinstance(outcome, Done):
                node = nodes[route.node]
                after = format_duration(self._clock.monotonic() - began)
                message = (
                    f"Could not create route {uid_of(node)} {route.destination} for node {route.node} "
                    f"after {after}: {outcome.message}"
                )
                yield record(NODES, node, "Warning", "FailedToCreateRoute", message)
                if not isinstance(outcome, Conflict) or tries >= TRIES:
                    break
                outcome, tries = (yield command), tries + 1
            if isinstance(outcome, Done):
                self._log.info("route created", cidr=route.destination, node=route.node)
                created.add((route.node, route.destination))
            else:
                self._failures += 1
        return created

    def _write_conditions(self, plan: RoutePlan, nodes: dict[str, Object], created: set[tuple[str, str]]) -> Step[None]:
        """Write the condition NetworkUnavailable of the nodes in the plan.

        nodes: the nodes as they were when the plan was computed.
        created: (node name, destination) of each route that was created.
        """
        patches = []
        for name, kept in plan.kept.items():
            seen, node = nodes.get(name), self._nodes.get(name)
            if seen is None or node is None or uid_of(seen) != uid_of(node):
                continue
            wanted = pod_cidrs(seen)
            routed = bool(wanted) and all(cidr in kept or (name, cidr) in created for cidr in wanted)
            condition = network_condition(node, routed=routed, now=self._clock.now())
            if condition is not None:
                # Upstream's SetNodeCondition sends only this condition, without $setElementOrder.
                patches.append(merge_status(NODES, node, {"conditions": [condition]}, ordered=False))
        for command, outcome in zip(patches, (yield from in_batches(patches, BATCH)), strict=True):
            if isinstance(outcome, Done):
                self._log.info("network condition written", node=command.key)
            elif not isinstance(outcome, NotFound):
                self._fail("network condition could not be written", node=command.key, error=outcome.message)
