"""Discovery: finds out which resources the API server serves, and sends them to the manager when they change.

Takes DiscoveryAnswer from its transport, Discover, Restarted, Wake. Sends ResourcesDiscovered to the manager.

It polls every PERIOD seconds: all groups in one request if the server has aggregated discovery, otherwise each group
version. It does not watch CustomResourceDefinitions and APIServices, because polling finds every kind of change and
needs only the permission for discovery. Upstream's garbage collector polls every 30 s. A group version that cannot be
discovered keeps its known resources, is logged once, and is reported in the vitals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.engine.vitals import DiscoveryVitals, StalledDiscovery
from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.protocols.discovery.documents import ACCEPT
from kcm.protocols.discovery.survey import ROOTS, Knowledge, Survey
from kcm.protocols.messages.discovery import Discover, DiscoveryAnswer, ResourcesDiscovered
from kcm.protocols.messages.lifecycle import Restarted, Wake
from kcm.runtime.client.api import Request, Response, Transport
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

PERIOD = 10.0  # seconds from one round to the next
ROUND_WITHIN = 30.0  # seconds after which a request without a response counts as failed
MOST_ROUNDS = 1_000_000  # maximum number of rounds of one incarnation, which determines its request numbers


class Discovery(Actor):
    """Actor that discovers resources, named "discovery"."""

    def __init__(self, context: Context, *, transport: Transport, audience: str, vitals: Vitals) -> None:
        """Create the actor. audience: the actor that receives ResourcesDiscovered."""
        super().__init__(context)
        self._transport, self._audience, self._vitals = transport, audience, vitals
        self._number = context.incarnation * MOST_ROUNDS
        self._known: Knowledge | None = None
        self._survey: Survey | None = None
        self._began = 0.0
        self._since: dict[str, float] = {}  # when the discovery of each stalled part first failed; monotonic
        self._sent: ResourcesDiscovered | None = None
        # Last body of each path. Most rounds find no change, and their messages omit the bodies of some 100 kB.
        self._bodies: dict[str, bytes] = {}
        self._has_response = False  # whether any request of this round has one
        self._warned: set[str] = set()  # stalled groups that were logged as a warning

    def started(self) -> None:
        self._begin()

    def receive(self, message: Any) -> None:
        match message:
            case DiscoveryAnswer() as answer:
                if answer.number == self._number and self._survey is not None:
                    self._take_answer(answer, self._survey)
            case Discover():
                self._sent = None
                if self._known is not None:
                    self._send(self._known)
            case Wake():
                self._look_at_the_time()
            case Restarted():
                pass  # a restarted manager sends Discover
            case _:
                super().receive(message)

    def _take_answer(self, answer: DiscoveryAnswer, survey: Survey) -> None:
        path, status = answer.path, answer.status
        self._has_response = self._has_response or bool(status)
        if status == 200 and not answer.unchanged:
            self._bodies[path] = answer.body
        body = self._bodies[path] if answer.unchanged else answer.body
        for more in survey.answered(path, status=status, body=body, error=answer.error):
            self._ask(more)
        if survey.is_over:
            self._end(survey)

    def _look_at_the_time(self) -> None:
        if self._survey is None:
            if self.clock.monotonic() >= self._began + PERIOD:
                self._begin()
            else:
                self.wake_at(self._began + PERIOD)
        elif self.clock.monotonic() >= self._began + ROUND_WITHIN:
            self._survey.give_up(f"no response within {ROUND_WITHIN:.0f} s")
            self._end(self._survey)
        else:
            self.wake_at(self._began + ROUND_WITHIN)

    def _begin(self) -> None:
        self._number += 1
        self._has_response = False
        self._began = self.clock.monotonic()
        self._survey = Survey(self._known or Knowledge())
        for path in ROOTS:
            self._ask(path)
        self.wake_at(self._began + ROUND_WITHIN)

    def _ask(self, path: str) -> None:
        number, last = self._number, self._bodies.get(path)

        def on_response(response: Response) -> None:
            unchanged = response.status == 200 and response.body == last
            body = b"" if unchanged else response.body
            self.tell(self.name, DiscoveryAnswer(number, path, response.status, body, response.error, unchanged))

        request = Request(method="GET", path=path, accept=ACCEPT, timeout=ROUND_WITHIN)
        self._transport.send(request, client=INFORMERS, on_response=on_response)

    def _end(self, survey: Survey) -> None:
        self._survey = None
        before, known = self._known or Knowledge(), survey.knowledge()
        self._log_changes(before.stalled, known.stalled)
        nothing_yet = self._known is None and len(known.stalled) == len(ROOTS)
        # An unreachable server does not mean that there are no resources.
        if not nothing_yet and (known != self._known or self._sent is None):
            self._known = known
            self._send(known)
        now = self.clock.monotonic()
        self._since = {what: self._since.get(what, now) for what in known.stalled}
        stalled = tuple(
            StalledDiscovery(what=what, why=why, since=self._since[what]) for what, why in known.stalled.items()
        )
        resources = 0 if self._sent is None else len(self._sent.resources)
        self._vitals.say(self.name, DiscoveryVitals(resources=resources, stalled=stalled, at=now))
        self.wake_at(max(now, self._began + PERIOD))

    def _log_changes(self, before: Mapping[str, str], stalled: Mapping[str, str]) -> None:
        for group, why in stalled.items():
            if before.get(group) == why:
                continue
            if self._has_response:
                self._warned.add(group)
                self.log.warning("API group not discovered, keeping its known resources", group=group, error=why)
            else:  # an outage of the server, which the informers log
                self.log.debug("API group not discovered, keeping its known resources", group=group, error=why)
        for group in self._warned - stalled.keys():
            self._warned.discard(group)
            self.log.info("API group discovered again", group=group)

    def _send(self, known: Knowledge) -> None:
        found = ResourcesDiscovered(known.resources, dict(known.stalled), known.others)
        if found != self._sent:
            self._sent = found
            self.tell(self._audience, found)
