"""Peers of a controller: the actors that it subscribes to or attaches to, and again after each of their restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.actors.reconciliation.actor_names import DISPATCHER, is_informer, resource_of, table_of
from kcm.protocols.messages.lifecycle import Attach
from kcm.protocols.messages.watches import Subscribe
from kcm.runtime.system.actor import Actor

if TYPE_CHECKING:
    from kcm.actors.engine.controller.keys import Keys


class Peers:
    """The dispatcher and the informers of a controller, by the incarnation to which it introduced itself."""

    def __init__(self, controller: Actor, *, keys: Keys, newest_ticket: Callable[[], int]) -> None:
        """Create it without peers.

        controller: the actor that introduces itself.
        keys: names the interests of a subscription.
        newest_ticket: returns the ticket of the newest Submit.
        """
        self._controller, self._keys, self._newest_ticket = controller, keys, newest_ticket
        self._incarnations: dict[str, int] = {}
        self.ticket_of_attach = 0  # ticket of the newest Submit before the last Attach

    def meet(self, peer: str) -> None:
        """Subscribe to an informer, or attach to the dispatcher."""
        self._incarnations[peer] = self._controller.context.system.incarnation(peer)
        self._introduce(peer)

    def restarted(self, peer: str, incarnation: int) -> None:
        """Repeat the introduction if this incarnation of a peer is newer than the last one. Ignores other actors."""
        if incarnation > self._incarnations.get(peer, incarnation):
            self._incarnations[peer] = incarnation
            self._introduce(peer)

    def look_for_restarts(self) -> None:
        """Find restarted peers without a message: the manager may have failed before it sent Restarted."""
        system = self._controller.context.system
        for peer in self._incarnations:
            self.restarted(peer, system.incarnation(peer))

    def forget_informers(self, is_needed: Callable[[str], bool]) -> None:
        """Remove informers. is_needed: whether the table of a resource id is still read."""
        for peer in [peer for peer in self._incarnations if is_informer(peer) and not is_needed(resource_of(peer))]:
            del self._incarnations[peer]

    def _introduce(self, peer: str) -> None:
        controller = self._controller
        if peer == DISPATCHER:
            self.ticket_of_attach = self._newest_ticket()
            controller.tell(peer, Attach(controller.name, controller.context.incarnation))
        else:
            interests, within = self._keys.subscription(table_of(peer))
            controller.tell(peer, Subscribe(controller.name, interests, within))
