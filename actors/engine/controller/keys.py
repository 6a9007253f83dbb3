"""Which keys a controller has to look at: what changes concern, and what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.reconciliation import Change, Watch
from protocols.messages.watching import EventType
from runtime.scheduling.clock import Clock
from runtime.scheduling.work_queue import WorkQueue
from runtime.tables.overlay import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Keys:
    """Adds to the work queues, by the watches of a reconciler."""

    def __init__(
        self,
        *,
        routes: Sequence[tuple[Watch[Any], WorkQueue[Any]]],
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        """routes: each watch with the queue that its keys go to. log: bound to the controller."""
        self._routes, self._tables = routes, tables
        self._clock, self._log = clock, log

    def add_concerned(self, resource_id: str, change: Change) -> None:
        now = self._clock.monotonic()
        for watch, queue in self._routes:
            if watch.resource.id != resource_id:
                continue
            try:
                keys = watch.to(change, self._tables)
                if isinstance(keys, str):
                    raise TypeError(f"`to` answers with keys, as a list, and not with the text {keys!r}")
                for key in keys:
                    queue.add(key, now)
            except Exception as err:  # a malformed object concerns nobody else
                self._log.warning(
                    "malformed object skipped",
                    resource=watch.resource.name,
                    key=change.key,
                    error=f"{type(err).__name__}: {err}",
                )

    def add_all(self) -> None:
        """Look at everything that is there, as if it had just been added."""
        for resource_id, overlay in self._tables.overlays().items():
            for entry in overlay.table.entries():
                self.add_concerned(resource_id, Change.of_entry(entry))

    def add_unseen(self) -> None:
        """What we wrote and no event will ever tell of concerns whom its deletion would concern."""
        for resource_id, overlay in self._tables.overlays().items():
            while overlay.unseen:
                entry = overlay.unseen.pop()
                gone = Change(type=EventType.DELETED, key=entry.key, raw=entry.raw, controller=entry.controller)
                self.add_concerned(resource_id, gone)
