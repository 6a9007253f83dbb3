"""Actor of the webhook server of this process: gives it the certificates of the Secret.

Takes Synced and WatchEvents from the informer of the Secret; Restarted and Wake. Sends Subscribe.

Every replica serves, also while it stands by for the lease. The server itself outlives this actor, so webhooks are
served while the actor is restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.actors.engine.vitals import WebhookServerVitals, description
from kcm.actors.engine.webhooks.secret import ring_of
from kcm.actors.reconciliation import actor_names
from kcm.protocols.messages.lifecycle import Describe, Restarted, Wake
from kcm.protocols.messages.watches import Subscribe, Synced, WatchEvents
from kcm.protocols.objects import Key, decode_object
from kcm.runtime.serving.webhook_pages import WebhookHost
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table

SOON = 0.1  # seconds until the next check of the tables
RETRY = 5.0  # seconds until the next attempt to open the port


class WebhookServer(Actor):
    """Actor that keeps the server's certificates up to date, named "webhook-server"."""

    def __init__(
        self,
        context: Context,
        *,
        table: Table,
        key: Key,
        host: WebhookHost,
        vitals: Vitals,
        is_synced: Callable[[], bool],
    ) -> None:
        """Create the actor.

        table: contains the Secret; it may contain others.
        key: of the Secret.
        host: the server.
        is_synced: reports whether the tables that functions of webhooks read are complete.
        """
        super().__init__(context)
        self._table, self._key, self._host, self._vitals = table, key, host, vitals
        self._is_synced = is_synced
        self._problem = "no certificates yet"

    def started(self) -> None:
        self._subscribe()
        self._publish()

    def receive(self, message: Any) -> Any:
        match message:
            case Synced():
                self._serve()
            case WatchEvents(events=events):
                if any(event.key == self._key for event in events):
                    self._serve()
            case Wake():
                self._serve()
            case Restarted(name=name):
                if name == actor_names.informer_name(self._table.id):
                    self._subscribe()
            case Describe():
                return description(self.name, self._state())
            case _:
                super().receive(message)
        return None

    def _subscribe(self) -> None:
        self.tell(actor_names.informer_name(self._table.id), Subscribe(self.name))

    def _serve(self) -> None:
        """Serve with the certificates of the Secret. Without valid ones, continue with the previous ones."""
        entry = self._table.get(self._key)
        if entry is None:
            self._problem = f"Secret {self._key} does not exist yet"
        elif (ring := ring_of(decode_object(entry.raw))) is None:
            self._problem = f"Secret {self._key} has no valid certificates"
            self.log.warning("webhook certificates not loaded", secret=self._key, error=self._problem)
        elif self._host.ring is None and not self._is_synced():
            # A function that looks for other objects would miss them.
            self._problem = "tables are not synced yet"
            self.wake_at(self.clock.monotonic() + SOON)
        elif ring != self._host.ring:
            is_first = self._host.ring is None
            try:
                self._host.serve(ring)
            except Exception as err:
                self._problem = f"{type(err).__name__}: {err}"
                self._publish()
                self.log.error("webhooks not served", secret=self._key, error=str(err))
                self.wake_at(self.clock.monotonic() + RETRY)
                return
            self._problem = ""
            self.log.info("webhooks are served" if is_first else "webhook certificates reloaded", secret=self._key)
        else:
            self._problem = ""
        self._publish()

    def _state(self) -> WebhookServerVitals:
        return WebhookServerVitals(is_serving=self._host.ring is not None, problem=self._problem)

    def _publish(self) -> None:
        self._vitals.say(self.name, self._state())
