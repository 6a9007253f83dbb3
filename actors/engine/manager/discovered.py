"""Informers of discovered resources, and the tables that each controller has been informed of."""

from __future__ import annotations

from kcm.actors.engine.manager.children import Children
from kcm.actors.engine.manager.plan import DiscoveryPlan, ManagerPlan, Steering
from kcm.actors.reconciliation.actor_names import controller_name, informer_name
from kcm.actors.reconciliation.discovered import Discovered, wanted_tables
from kcm.protocols.messages.discovery import Discover, ResourcesDiscovered, ServedResource, TablesChanged
from kcm.protocols.messages.watches import Unsubscribe
from kcm.runtime.system.actor import Actor


class DiscoveredInformers:
    """Informers of discovered resources, started and stopped as resources and controllers change.

    A resource that a controller's spec reads in full has a static table, which all controllers share.
    """

    def __init__(self, manager: Actor, *, plan: ManagerPlan, steering: Steering, children: Children) -> None:
        self._manager, self._plan, self._steering, self._children = manager, plan, steering, children
        self._discovery: DiscoveryPlan = plan.discovery
        self._served: tuple[ServedResource, ...] | None = None  # None: not known yet
        self._everything: tuple[ServedResource, ...] = ()
        self._shared: frozenset[str] = frozenset()  # Resource.ids with a table that some controller requested
        self._sent: dict[str, TablesChanged] = {}  # by controller

    def take_over(self, now: float) -> None:
        """Keep the informers that survived a restart of the manager, and restart the others."""
        for informer in self._discovery.informers.values():
            self._children.start(informer.spec, now)
        self.controllers_changed(now)

    def controllers_changed(self, now: float) -> None:
        """Handle a controller that was enabled or disabled. Discovery runs while a controller needs it."""
        if all(discovers.only_shared for discovers in self._discovering().values()):
            if self._discovery.actor.name in self._children:
                self._children.forget(self._discovery.actor.name)
            self._served = ()
        elif self._discovery.actor.name not in self._children:
            self._served = None
            self._children.start(self._discovery.actor, now)
            self._manager.tell(self._discovery.actor.name, Discover())
        self._follow(now)

    def found(self, discovered: ResourcesDiscovered, now: float) -> None:
        self._served = discovered.resources
        self._everything = (*discovered.resources, *discovered.others)
        self._follow(now)

    def introduce(self, controller: str) -> None:
        """Send a new incarnation of this controller its tables."""
        self._sent.pop(controller, None)
        self._send(controller)

    def forget(self, controller: str) -> None:
        """End the subscriptions of a disabled controller."""
        sent = self._sent.pop(controller, None)
        for served in sent.resources if sent is not None else ():
            self._manager.tell(informer_name(served.resource.id), Unsubscribe(controller_name(controller)))

    def _discovering(self) -> dict[str, Discovered[object]]:
        """Return the enabled controllers that discover resources, with their Discovered."""
        controllers = ((name, self._plan.controllers[name].discovers) for name in self._steering.wanted(self._plan))
        return {name: discovers for name, discovers in controllers if discovers is not None}

    def _follow(self, now: float) -> None:
        """Stop and start informers, then send each controller its tables, which exist by then."""
        if self._served is None:
            return
        wanted = wanted_tables(self._served, self._discovering().values())
        self._shared = frozenset(wanted)
        static = self._plan.informers
        for resource_id, informer in list(self._discovery.informers.items()):
            if wanted.get(resource_id) != (informer.served, informer.metadata_only):
                self._children.forget(informer.spec.name)
                self._discovery.drop(resource_id)
                self._manager.log.info("informer stopped", v=2, resource=resource_id)
        for resource_id, (served, metadata_only) in wanted.items():
            if resource_id in static:
                if static[resource_id].name not in self._children:
                    self._children.start(static[resource_id], now)
            elif resource_id not in self._discovery.informers:
                informer = self._discovery.add(served, metadata_only=metadata_only)
                self._children.start(informer.spec, now)
        for controller in self._discovering():
            self._send(controller)

    def _send(self, controller: str) -> None:
        discovers = self._plan.controllers[controller].discovers
        if self._served is None or discovers is None:
            return
        own = self._plan.controllers[controller].resources
        selected = tuple(
            served for served in self._served if discovers.select(served) and served.resource.id not in own
        )
        if discovers.only_shared:
            selected = tuple(served for served in selected if served.resource.id in self._shared)
        partial = {resource_id for resource_id, informer in self._discovery.informers.items() if informer.metadata_only}
        in_part = tuple(served.resource.id for served in selected if served.resource.id in partial)
        message = TablesChanged(selected, in_part, self._everything)
        if self._sent.get(controller) != message:
            self._sent[controller] = message
            self._manager.tell(controller_name(controller), message)
