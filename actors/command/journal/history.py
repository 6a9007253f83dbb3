"""Journal as a sequence of steps, with the tables and the queues as they were after each of them.

A step is the handling of one message by one actor. The informers of the run, and the controller that is looked at, are
replayed up to a step (replay.py). A step backwards replays from the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from kcm.actors.command.journal.replay import Replayer, beginning, last_run, stage_of
from kcm.actors.command.journal.stage import ReplayStage
from kcm.actors.engine.controller import Controller
from kcm.actors.engine.vitals import PendingKey
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import DISCOVERY, MANAGER, controller_name, controller_of, is_informer
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.messages.commands import in_words
from kcm.protocols.messages.journal import MessageHandled, MessageSent, TurnLost
from kcm.protocols.resources import SECRETS
from kcm.runtime.serving.console.pages import Query, one_of
from kcm.runtime.system.journal import JournalError, Record
from kcm.runtime.system.journal_table import described, message_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST_KEYS = 500  # keys of a table, and of the queues of a controller
MOST_SENT = 100  # messages of one step


class Cursor:
    """Replay of the informers, and of one controller, up to some record."""

    def __init__(self, stage: ReplayStage, replayer: Replayer | None, controller: str) -> None:
        self.stage, self.controller = stage, controller
        self.position = 0  # number of the records that were applied
        self.difference = False  # the controller sent other commands than in the run
        self._replayer = replayer
        self._mail: dict[int, MessageSent] = {}

    def advance(self, run: Sequence[MessageSent | MessageHandled | TurnLost], until: int) -> None:
        for record in run[self.position : until]:
            if isinstance(record, TurnLost):
                continue
            if self._replayer is not None:
                self.difference |= self._replayer.feed(record) is not None
            else:
                self._feed(record)
        self.position = until

    def pending(self) -> list[PendingKey]:
        if self._replayer is None:
            return []
        actor = self._replayer.actor
        return list(actor.pending()) if isinstance(actor, Controller) else []

    def _feed(self, record: MessageSent | MessageHandled) -> None:
        """Apply a record to the informers alone."""
        self.stage.clock.set(record)
        if isinstance(record, MessageSent):
            if is_informer(record.receiver) or (record.receiver == MANAGER and record.sender == DISCOVERY):
                self._mail[record.number] = record
            return
        message = self._mail.pop(record.number, None)
        if message is None:
            return
        if is_informer(message.receiver):
            self.stage.informer_handles(message)
        else:
            self.stage.discovers(message_of(message))


class JournalHistory:
    """Last run of a journal. Not thread-safe."""

    def __init__(
        self,
        records: Sequence[Record],
        *,
        specs: Sequence[ControllerSpec],
        read_options: Callable[[Sequence[str]], Options],
        log: FilteringBoundLogger,
    ) -> None:
        """Index the steps. See replay() for the parameters. Raises JournalError."""
        self._opened, self._run = last_run(records)
        self._specs, self._options, self._log = specs, read_options(self._opened.arguments), log
        self._sent: dict[int, MessageSent] = {}
        self._caused: dict[int, list[int]] = defaultdict(list)  # numbers of messages, by that of their cause
        self._steps: list[int] = []  # positions of MessageHandled
        self._step_of: dict[int, int] = {}  # step in which a message was handled, by its number
        for position, record in enumerate(self._run):
            if isinstance(record, MessageSent):
                self._sent[record.number] = record
                if record.cause:
                    self._caused[record.cause].append(record.number)
            elif isinstance(record, MessageHandled) and record.number in self._sent:
                self._step_of[record.number] = len(self._steps)
                self._steps.append(position)
        if not self._steps:
            raise JournalError("no message was handled in the run")
        self._cursor = self._new_cursor("")

    @property
    def steps(self) -> int:
        return len(self._steps)

    def ask(self, query: Query) -> dict[str, Any]:
        """Return the state after the step `at`.

        controller: whose queues are shown; table, object: what is shown of the tables; actor: for the steps before and
        after this one that are shown.

        Raises ValueError, LookupError.
        """
        at = min(max(0, int(one_of(query, "at", "0"))), len(self._steps) - 1)
        controller, actor = one_of(query, "controller"), one_of(query, "actor")
        self._seek(at, controller)
        cursor = self._cursor
        return {
            "steps": len(self._steps),
            "at": at,
            "began": self._opened.wall,
            "ended": self._sent[self._message_of(len(self._steps) - 1)].wall,
            "step": self._step(at),
            "previous": self._near(at, actor, -1),
            "next": self._near(at, actor, 1),
            "actors": sorted({record.receiver for record in self._sent.values()}),
            "tables": [
                {"id": name, "objects": len(table), "synced": table.synced, "version": table.version}
                for name, table in sorted(cursor.stage.tables.items())
            ],
            "table": self._table(one_of(query, "table"), one_of(query, "object")),
            "controllers": sorted(
                {name for record in self._sent.values() if (name := controller_of(record.receiver) or "")}
            ),
            "queues": [_pending_row(key) for key in cursor.pending()[:MOST_KEYS]],
            "differs": cursor.difference,
        }

    def _seek(self, at: int, controller: str) -> None:
        until = self._steps[at + 1] if at + 1 < len(self._steps) else len(self._run)
        if self._cursor.controller != controller or self._cursor.position > until:
            self._cursor = self._new_cursor(controller)
        self._cursor.advance(self._run, until)

    def _new_cursor(self, controller: str) -> Cursor:
        stage = stage_of(self._opened, specs=self._specs, options=self._options, log=self._log)
        replayer = None
        if controller:
            plan = stage.plan.controllers.get(controller)
            if plan is None:
                raise LookupError(f"{controller!r} is not a controller of the run")
            try:
                incarnation = beginning(self._run, controller_name(controller), None)
            except JournalError as err:
                raise LookupError(str(err)) from err
            replayer = Replayer(stage, plan.spec, incarnation)
        return Cursor(stage, replayer, controller)

    def _message_of(self, step: int) -> int:
        record = self._run[self._steps[step]]
        assert isinstance(record, MessageHandled)
        return record.number

    def _step(self, step: int) -> dict[str, Any]:
        record = self._sent[self._message_of(step)]
        return {
            **self._message(record),
            "cause": self._step_of.get(record.cause),
            "sent": [self._message(self._sent[number]) for number in self._caused[record.number][:MOST_SENT]],
        }

    def _message(self, record: MessageSent) -> dict[str, Any]:
        return {
            "number": record.number,
            "at": record.wall,
            "sender": record.sender,
            "receiver": record.receiver,
            "text": described(message_of(record)),
            "step": self._step_of.get(record.number),
        }

    def _near(self, at: int, actor: str, direction: int) -> int | None:
        """Return the next step of an actor, or of any actor, in a direction."""
        step = at + direction
        while 0 <= step < len(self._steps):
            if not actor or self._sent[self._message_of(step)].receiver == actor:
                return step
            step += direction
        return None

    def _table(self, name: str, key: str) -> dict[str, Any] | None:
        if not name:
            return None
        table = self._cursor.stage.tables.get(name)
        if table is None:
            raise LookupError(f"there was no table {name!r}")
        entry = table.get(key) if key else None
        return {
            "id": name,
            "keys": [[entry.key, entry.resource_version] for entry in table.entries()[:MOST_KEYS]],
            "more": max(0, len(table) - MOST_KEYS),
            "object": None if entry is None else _shown_object(orjson.loads(entry.raw), name),
        }


def _shown_object(obj: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """Return an object without the data of a Secret."""
    if not table.startswith(SECRETS.id):
        return obj
    return {name: value for name, value in obj.items() if name not in ("data", "stringData")}


def _pending_row(pending: PendingKey) -> dict[str, Any]:
    state = pending.state
    where = "in work" if state.taken is not None else "queued" if state.queued is not None else "delayed"
    awaited = [in_words(command) for command in pending.awaited]
    return {"queue": pending.queue, "key": pending.key, "state": where, "awaited": awaited}
