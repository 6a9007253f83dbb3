"""Informer actor, which keeps the table of one resource up to date and sends changes to its subscribers.

Takes Subscribe, Unsubscribe; from its transport Listed, Streamed, StreamEnded; Wake. Sends WatchEvents and Synced.

It lists, as a stream if transport and server support that, else in pages, and watches from the resourceVersion of the
list, never from that of an item. A streamed list is either the JSON of a list or the beginning of a watch (KEP-3157);
the response shows which. A watch without data for longer than the limit is closed and opened again with a warning, and
the table records its age. After 410 Gone the informer lists again and sends only the differences. A change is sent to
the subscribers whose interests it meets; changes are batched while the mailbox is not empty. Behaviour as client-go's
tools/cache reflector, kubernetes v1.36.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

from kcm.actors.engine.informer.contents import Contents, Difference
from kcm.actors.engine.informer.delivery import Delivery
from kcm.actors.engine.informer.list_watch import InformerLimits, ListWatch
from kcm.actors.engine.informer.retries import QUIET, InformerRetries, Outage, RetryAction
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.protocols.list_bodies import ListReader, is_list
from kcm.protocols.messages.lifecycle import Wake
from kcm.protocols.messages.watches import EventType, Listed, Streamed, StreamEnded, Subscribe, Unsubscribe
from kcm.protocols.objects import Key, Object, decode_object
from kcm.protocols.versions import parse_version
from kcm.protocols.watch_lines import (
    MalformedError,
    ends_initial_events,
    latest_changes,
    parse_list_page,
    parse_watch_line,
    version_of,
)
from kcm.runtime.client.api import Transport
from kcm.runtime.metrics.meters import InformerMeter
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.table import Table, TableWriter

SHORT_WATCH = 1.0  # seconds; a shorter watch without any event is a failure
INCOMPLETE_LISTS = 2  # successive incomplete streaming lists after which it lists in pages


class InformerState(Enum):
    WAITING = "waiting"  # until the backoff is over
    LISTING = "listing"  # pages
    STREAMING_LIST = "streaming list"  # as JSON, or as the beginning of a watch
    WATCHING = "watching"
    PROBING = "probing"  # whether the server responds, for all informers


class Informer(Actor):
    """Informer of one table, named `informer:<Table.id>`."""

    def __init__(
        self,
        context: Context,
        *,
        table: Table,
        transport: Transport,
        limits: InformerLimits,
        outage: Outage,
        seed: int | None = None,
        warnings: ServerWarnings | None = None,
        meter: InformerMeter | None = None,
    ) -> None:
        """Create an incarnation of the informer.

        outage, warnings: shared by all informers of the API server.
        meter: metrics; None to report none.
        """
        super().__init__(context)
        self._table, self._limits, self._meter = table, limits, meter
        self._batch_began: float | None = None  # when the first message of the current batch arrived
        chance = random.Random(seed)
        self._about = {"resource": table.resource.name}  # facts of each of its log lines
        if str(table.selection):
            self._about["selection"] = str(table.selection)
        self._server = ListWatch(
            table.resource,
            selection=table.selection,
            transport=transport,
            limits=limits,
            clock=self.clock,
            chance=chance,
            incarnation=context.incarnation,
            metadata_only=table.metadata_only,
            deliver=lambda message: self.tell(self.name, message),
            warnings=warnings if warnings is not None else ServerWarnings(self.log),
        )
        self._writer: TableWriter
        self._contents: Contents
        self._delivery: Delivery
        self._state = InformerState.WAITING
        self._list_reader: ListReader | None = None  # while the stream is the JSON of a list
        self._consistent = False  # after 410: list from the store, not from the watch cache
        self._streaming_lists = limits.streaming_lists  # until the server rejects one, or completes none
        self._incomplete = 0
        self._gone_at = float("-inf")
        self._quiet = False  # a watch had no data: request shorter ones, which end before they are cut
        self._deferred: set[str] = set()  # subscribers whose Subscribe waits for the lines that were held
        self._retries = InformerRetries(outage, informer=self.name, chance=chance)

    def started(self) -> None:
        self._writer = self._table.claim()
        self._contents = Contents(
            self._table,
            self._writer,
            malformed=self._warn_malformed,
            unreadable=self._warn_unreadable,
            healed=self._tell_healed,
        )
        self._delivery = Delivery(self._table, self._writer, send=self.tell_frame)
        if self._meter is not None:
            self._meter.follow(lambda: self._delivery.pending)
        self._delivery.take_over(self.context.system.is_alive)
        self._list()

    def stopped(self) -> None:
        self._server.drop()
        if self._meter is not None:
            self._meter.ended()

    def receive(self, message: Any) -> None:
        match message:
            case Streamed(stream=stream, lines=lines):
                if self._server.is_current(stream):
                    self._server.silent = self._quiet = False
                    now = self.clock.monotonic()
                    self._writer.touch(now)
                    if self._batch_began is None:
                        self._batch_began = now
                    self._take_streamed(lines)
            case Listed(stream=stream):
                if self._server.is_current(stream) and self._state is InformerState.PROBING:
                    self._take_probe(message)
                elif self._server.is_current(stream):
                    self._take_page(message)
            case StreamEnded(stream=stream):
                if self._server.is_current(stream):
                    self._server.ended()
                    self._take_end(message)
            case Subscribe(subscriber=name, interests=interests, within=within):
                if self._server.release():
                    self._deferred.add(name)
                    self.tell(self.name, message)  # after the lines that were held
                else:
                    self._deferred.discard(name)
                    self._delivery.subscribe(name, interests, within)
            case Unsubscribe(subscriber=name):
                if name in self._deferred:
                    self.tell(self.name, message)  # after its Subscribe
                else:
                    self._delivery.unsubscribe(name)
                    self._hold_if_unread()
            case Wake():
                self._look_at_the_time()
            case _:
                super().receive(message)
        if self.is_last:
            self._delivery.flush()
            if self._batch_began is not None:
                self._observe_batch(self._batch_began)

    def _observe_batch(self, began: float) -> None:
        self._batch_began = None
        if self._meter is not None:
            self._meter.latency.observe(self.clock.monotonic() - began)

    def pinged(self) -> None:
        """Send the changes that earlier messages of this batch left to the next one."""
        self._delivery.flush()

    # Requests.

    def _list(self) -> None:
        """List from the beginning, as a stream if the server supports that."""
        self._contents.begin_list()
        self._list_reader = None
        if self._streaming_lists:
            self._server.stream_list(None if self._consistent or not self._table.synced else self._table.version)
            self._wait_for_answer(InformerState.STREAMING_LIST)
        else:
            # The first list may come from the watch cache.
            self._ask_page({} if self._consistent or self._table.synced else {"resourceVersion": "0"})

    def _ask_page(self, query: dict[str, str]) -> None:
        self._server.ask_page(query)
        self._wait_for_answer(InformerState.LISTING)

    def _watch(self) -> None:
        query = {"resourceVersion": str(self._table.version)}
        self._server.open(query, brief=self._quiet, holds=self._is_unread)
        self._wait_for_answer(InformerState.WATCHING)

    @property
    def _is_unread(self) -> bool:
        """Report whether the table has no subscriber."""
        return not self._writer.audience.subscribers

    def _hold_if_unread(self) -> None:
        if self._state is InformerState.WATCHING and self._is_unread:
            self._server.hold()

    def _again(self) -> None:
        if self._table.synced and not self._consistent:
            self._watch()
        else:
            self._list()

    # Responses.

    def _take_page(self, listed: Listed) -> None:
        if listed.status != 200:
            if listed.status == 410:
                self._consistent = True
            self._back_off(_refusal("list", listed), listed.retry_after, is_answered=bool(listed.status))
            return
        now = self.clock.monotonic()
        self._writer.touch(now)
        if self._batch_began is None:
            self._batch_began = now
        try:
            page = parse_list_page(listed.body)
            version = parse_version(page.resource_version)
            if not page.next and version is None:
                raise MalformedError(f"a list without a resourceVersion: {page.resource_version!r:.80}")
        except MalformedError as err:
            self._back_off(str(err))
            return
        for obj in page.items:
            self._contents.gather(obj)
        if page.next:
            self._ask_page({"continue": page.next})
        elif version is not None:
            self._end_list(version)
            self._watch()

    def _end_list(self, version: int) -> None:
        first = not self._table.synced
        self._delivery.flush()
        differences = self._contents.end_list(version)
        event = "Caches populated" if first else "listed again"
        self.log.info(event, v=2, **self._about, objects=len(self._table), version=version)
        if first:
            self._delivery.synced()  # later subscribers read the table
        else:
            for difference in differences:
                self._delivery.add(difference)
        self._consistent = False
        self._retries.listed()
        self._incomplete = 0

    def _take_streamed(self, lines: bytes) -> None:
        if self._state is InformerState.STREAMING_LIST and not self._server.events:
            if self._list_reader is None and is_list(lines):
                self._list_reader = ListReader()
            if self._list_reader is not None:
                for obj in self._list_reader.feed(lines):
                    self._contents.gather(obj)
                return
        self._take_lines(lines)

    def _end_streamed_list(self, reader: ListReader) -> None:
        """Take the complete JSON of a list."""
        try:
            page = reader.end()
            version = parse_version(page.resource_version)
            if version is None or page.next:
                raise MalformedError(f"a list without a resourceVersion or an end: {page.resource_version!r:.80}")
        except MalformedError as err:
            self._count_incomplete()
            self._back_off(str(err))
            return
        for obj in page.items:
            self._contents.gather(obj)
        self._end_list(version)
        self._watch()

    def _take_lines(self, lines: bytes) -> None:
        several = lines.split(b"\n")
        foresees = False
        if self._state is not InformerState.STREAMING_LIST:
            foresees = self._writer.foresees
            if self._is_unread:
                several = latest_changes(several)
        for raw in several:
            if not raw:
                continue
            if foresees and (foreseen := self._contents.foreseen(raw)) is not None:
                self._server.events += 1
                self._deliver(self._contents.take_foreseen(foreseen.entry), writer=foreseen.writer)
                continue
            try:
                line = parse_watch_line(raw)
            except MalformedError as err:
                self._warn_malformed(str(err))
                continue
            if line.type == "ERROR":
                self._take_error(line.object)
                return  # an ERROR event ends the watch
            if line.type == "BOOKMARK":
                self._take_bookmark(line.object)
                continue
            self._server.events += 1
            if self._state is not InformerState.STREAMING_LIST:
                self._deliver(self._contents.take(line))
            elif line.type == EventType.DELETED:
                self._contents.drop(line.object)
            else:
                self._contents.gather(line.object)

    def _deliver(self, difference: Difference | None, *, writer: str = "") -> None:
        if difference is not None:
            self._delivery.add(difference, writer=writer)

    def _take_bookmark(self, bookmark: Object) -> None:
        version = version_of(bookmark)
        if version is None:
            self._warn_malformed("a bookmark without a resourceVersion")
        elif self._state is not InformerState.STREAMING_LIST:
            self._contents.advance(version)
        elif ends_initial_events(bookmark):
            self._end_list(version)
            self._state = InformerState.WATCHING
            self._hold_if_unread()

    def _take_error(self, status: Object) -> None:
        """Take the metav1 Status of an ERROR event, which may be incomplete."""
        self._server.drop()
        code, reason = status.get("code"), status.get("reason")
        if code == 410 or reason in ("Expired", "Gone"):
            self._gone(str(status.get("message") or reason))
        else:
            self._back_off(f"watch error {code}: {status.get('message') or reason}")

    def _take_end(self, end: StreamEnded) -> None:
        reader, self._list_reader = self._list_reader, None
        if end.status == 200 and not end.error and reader is None:
            self._writer.touch(self.clock.monotonic())  # the server itself ended the stream
        match end.status, self._state:
            case 410, _:
                self._gone(end.error or "watch answered 410")
            case 200, _ if reader is not None and not end.error:
                self._end_streamed_list(reader)
            case 200, InformerState.STREAMING_LIST:
                self._count_incomplete()
                self._back_off(end.error or "the streaming list ended before it was complete")
            case 200, _ if self._was_short():
                self._back_off("very short watch: ended at once, without an event")
            case 200, _:
                self._watch()
            case 0, InformerState.WATCHING if self._was_cut(end):
                self.log.info("watch broke, opening it again", v=2, **self._about, error=end.error)
                self._watch()
            case 400 | 405 | 422, InformerState.STREAMING_LIST:
                self.log.info("no streaming lists here, listing in pages", v=2, **self._about)
                self._streaming_lists = False
                self._list()
            case _:
                self._take_failed_end(end, is_list=reader is not None)

    def _take_failed_end(self, end: StreamEnded, *, is_list: bool) -> None:
        """Back off after an error. is_list: the stream was the JSON of a list, of which parts had arrived."""
        if is_list:
            self._count_incomplete()
        if b"Too large resource version" in end.body:  # a server that was restored, or lags behind another
            self._consistent = True
        is_answered = bool(end.status) or end.begun or not self._server.silent
        self._back_off(_refusal("list" if is_list else "watch", end), end.retry_after, is_answered=is_answered)

    def _was_short(self) -> bool:
        return self.clock.monotonic() - self._server.began < SHORT_WATCH and self._server.events == 0

    def _was_cut(self, end: StreamEnded) -> bool:
        """Report whether the connection of a working watch was cut, for example by a proxy.

        Such a watch is opened again without backoff: where connections are cut every half minute, backoff would keep
        the table stale for longer than that. If the server has failed, the next watch fails, and backs off. Source:
        client-go v1.36 tools/cache/reflector.go (handleAnyWatch), apimachinery's watch/streamwatcher.go.
        """
        was_open = end.begun or not self._server.silent
        return was_open and not self._was_short() and not self._retries.is_outage

    def _gone(self, why: str) -> None:
        self._consistent = True
        now = self.clock.monotonic()
        again, self._gone_at = now - self._gone_at < QUIET, now
        if again:
            self._back_off(why)
            return
        self.log.info("resourceVersion is gone, listing again", v=2, **self._about, error=why)
        self._list()

    def _count_incomplete(self) -> None:
        """Count an incomplete list. A server without streaming lists answers the request with an ordinary watch."""
        self._incomplete += 1
        if self._incomplete >= INCOMPLETE_LISTS:
            self._streaming_lists = False

    def _warn_malformed(self, why: str, key: Key = "", err: Exception | None = None) -> None:
        if err is not None:  # also an error of an index, which is code of a controller
            self.context.system.raised(self.name, "making an entry", key, err)
        self.log.warning("malformed object skipped", **self._about, key=key, error=why)

    def _warn_unreadable(self, unreadable: Unreadable, err: Exception) -> None:
        self.context.system.raised(self.name, "making an entry", unreadable.key, err)
        self.log.warning(
            "object cannot be read, holding back writes that it may affect",
            **self._about,
            key=unreadable.key,
            uid=unreadable.uid,
            error=unreadable.why,
        )

    def _tell_healed(self, key: Key) -> None:
        self.log.info("object can be read again, or was deleted", **self._about, key=key)

    # Time.

    def _wait_for_answer(self, state: InformerState) -> None:
        """Wait for the response to a request."""
        self._state = state
        self._retries.asked()
        self.wake_at(self._silent_since() + self._silence())

    def _silent_since(self) -> float:
        """Return the time of the last data, but not before the current request was sent."""
        return max(self._server.began, self._table.heard or 0.0)

    def _silence(self) -> float:
        """Return for how many seconds the server may send nothing."""
        return self._limits.silence + (self._limits.list_timeout if self._state is InformerState.LISTING else 0.0)

    def _look_at_the_time(self) -> None:
        now, since = self.clock.monotonic(), self._silent_since()
        self._retries.look(now)
        due = since + self._silence() if self._retries.due is None else self._retries.due
        if now < due:
            self.wake_at(due)
        elif self._retries.due is not None:
            self._try_again(now)
        else:
            if self._state is InformerState.STREAMING_LIST:
                self._count_incomplete()
            self._report_silence(round(now - since, 1))
            self._again()

    def _report_silence(self, seconds: float) -> None:
        """Log that a watch had no data; as a warning only if it is not the first in a row.

        kube-apiserver sends no bookmarks to a resumed watch until its cache has a newer version. For a resource that
        rarely changes this takes minutes.
        Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go (process).
        """
        quiet = self._state is InformerState.WATCHING and self._server.silent
        if quiet and not self._quiet:
            self._quiet = True
            self.log.debug("watch was silent, requesting shorter ones", **self._about, seconds=seconds)
        else:
            self.log.warning("watch cut after silence", **self._about, seconds=seconds)

    def _try_again(self, now: float) -> None:
        """Send the next request; in an outage, send a probe or wait for the probe of another informer."""
        match self._retries.turn(now):
            case RetryAction.ASK:
                self._again()
            case RetryAction.PROBE:
                self._server.probe()
                self._wait_for_answer(InformerState.PROBING)
            case RetryAction.WAIT:
                self._wait_for_server()

    def _take_probe(self, answer: Listed) -> None:
        if not answer.status or answer.status >= 500:  # a proxy reports that the server is down
            self._wait_for_server()
            return
        seconds = self._retries.outage_seconds(self.clock.monotonic())
        waiting = self._retries.end_outage()
        self.log.info("API server responds again", seconds=round(seconds, 1), informers=len(waiting) + 1)
        for name in waiting:
            self.tell(name, Wake())
        self._again()

    def _wait_for_server(self) -> None:
        self._state = InformerState.WAITING
        self.wake_at(self._retries.hold_up())

    def _back_off(self, why: str, retry_after: float = 0.0, *, is_answered: bool = True) -> None:
        """Wait before the next request. is_answered: the server sent a response, which may have been an error."""
        self._server.drop()
        now = self.clock.monotonic()
        outage_begins = not is_answered and self._retries.no_response(now)
        delay = self._retries.failed(now, retry_after=retry_after)
        self._writer.fail(why, now)
        self._state = InformerState.WAITING
        if outage_begins:
            self.log.warning("API server does not respond, informers wait for it", **self._about, error=why)
        # An outage is logged once for all informers: sixty warnings at a time would hide other failures.
        log = self.log.debug if self._retries.is_outage else self.log.warning
        log("watch failed, retrying", **self._about, error=why, seconds=round(delay, 2))
        self.wake_at(now + delay)


def _refusal(asked: str, answer: Listed | StreamEnded) -> str:
    """Return the reason of a failed list or watch in one line, with the message of the Status, if any."""
    if not answer.status:
        return answer.error
    try:
        message = str(decode_object(answer.body).get("message") or "")
    except (ValueError, AttributeError):
        message = ""
    return f"{asked} answered {answer.status}" + (f": {message}" if message else "")
