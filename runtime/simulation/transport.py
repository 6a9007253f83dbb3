"""Simulated transport of a process: requests and watches on the simulated network, with faults and retries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcm.runtime.apiserver.core.questions import Delay
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.retries import retry_delay
from kcm.runtime.faults.answers import no_answer, refusal
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.scheduling.permits import Permit
from kcm.runtime.simulation.network import SimulatedNetwork
from kcm.runtime.simulation.side_threads import SideThread
from kcm.runtime.simulation.watch_streams import SimulatedStream

TIMEOUT = 30.0  # seconds; timeout of requests that have none of their own


class SimulatedTransport:
    """Implementation of kcm.runtime.client.api.Transport for one process, without HTTP.

    As the HTTP transport, it retries a response with Retry-After until the request's timeout; see client/retries.py.
    """

    def __init__(self, network: SimulatedNetwork, process: str, http: SideThread | None = None) -> None:
        """Create the transport of a process.

        http: HTTP thread of the process; None for a thread that is never blocked
        """
        self._network, self._process = network, process
        self._http = http if http is not None else SideThread(network.clock)

    @property
    def requests(self) -> list[tuple[float, str, Request]]:
        """Return the requests that all processes have sent: (virtual time, client, request)."""
        return self._network.requests

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        network = self._network
        permit = request.permit.within(self._http.clock.monotonic() + (request.timeout or TIMEOUT))
        exchange = _Exchange(network, self._process, self._http, client, request, permit, on_response)
        held = network.strike(FaultKind.REQUEST_HELD, exchange.scope)
        if held is None:
            self._http.do(exchange.depart)
        else:
            network.clock.call_after(held.seconds, lambda: self._http.do(exchange.depart))

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> SimulatedStream:
        network = self._network
        network.requests.append((network.clock.monotonic(), client, request))
        stream = SimulatedStream(
            network, network.scope(self._process, client, "WATCH", request), self._http, on_lines, on_end
        )
        network.clock.call_after(network.delay(), lambda: stream.open(request))
        return stream


class _Exchange:
    """Request of a client with its response, and with retries and faults in between."""

    def __init__(
        self,
        network: SimulatedNetwork,
        process: str,
        http: SideThread,
        client: str,
        request: Request,
        permit: Permit,
        on_response: Callable[[Response], None],
    ) -> None:
        self.scope = network.scope(process, client, request.method, request)
        self._network, self._clock = network, network.clock
        self._process, self._http, self._client = process, http, client
        self._request, self._permit, self._on_response = request, permit, on_response
        self._retries = 0
        self._acknowledged = self._answered = False
        self._warnings: Sequence[str] = ()  # about unknown fields

    def depart(self) -> None:
        """Send the request from the HTTP thread, unless its permit has expired."""
        network, clock, scope, request = self._network, self._clock, self.scope, self._request
        if self._permit.is_over(self._http.clock.monotonic()):
            self._respond(no_answer("not sent: it may not begin any more", sent=False))
            return
        network.requests.append((clock.monotonic(), self._client, request))
        for witness in network.witnesses:
            witness.sent(self._process, self._client, request)
        if network.server_is_down:
            self._respond(no_answer("connection refused", sent=False))
        elif network.partition(scope) is not None or network.strike(FaultKind.COMMAND_LOST, scope) is not None:
            self._give_up()
        elif network.strike(FaultKind.COMMAND_REFUSED, scope) is not None:
            self._respond(no_answer("connection refused", sent=False))
        elif (fault := network.strike(FaultKind.COMMAND_ANSWERED, scope)) is not None:
            self._respond(refusal(fault))
        elif (late := network.strike(FaultKind.COMMAND_DELAYED, scope)) is not None:
            if late.seconds >= self._remaining:
                self._give_up()  # the request still arrives later, as if a proxy had held it
            clock.call_after(late.seconds, self._arrive)
        else:
            clock.call_after(network.delay(), self._arrive)

    def _arrive(self) -> None:
        network, scope, request = self._network, self.scope, self._request
        if network.server_is_down:
            self._respond(no_answer("connection reset by peer"))
            return
        network.note(self._process, f"{request.method} {request.path} arrives")
        repetitions = 2 if network.strike(FaultKind.COMMAND_REPEATED, scope) is not None else 1
        for _ in range(repetitions):
            outcome, self._warnings = network.serve_checked(request)
            if isinstance(outcome, Suspended):
                self._schedule_resume(outcome, network.server)
            else:
                self._carried_out(outcome)
        if isinstance(outcome, Response):
            network.server.when_durable(lambda: self._acknowledge(outcome))
        if not self._acknowledged:
            self._give_up()  # unless the acknowledgement comes in time

    def _carried_out(self, response: Response) -> None:
        for witness in self._network.witnesses:
            witness.carried_out(self._process, self._client, self._request, response)

    def _schedule_resume(self, suspended: Suspended, server: ApiServer) -> None:
        """Schedule the resumption of a suspended request, after the delay of its slowest webhook call or timer."""
        network, questions = self._network, suspended.questions
        after = max(
            question.seconds if isinstance(question, Delay) else 2 * network.delay() + network.webhook_delay(question)
            for question in questions
        )
        self._clock.call_after(after, lambda: self._resume(suspended, server))

    def _resume(self, suspended: Suspended, server: ApiServer) -> None:
        network = self._network
        if network.server_is_down or network.server is not server:
            return  # the server was restarted, and the request is lost
        outcome = suspended.resume([network.call_webhook(question) for question in suspended.questions])
        if isinstance(outcome, Suspended):
            self._schedule_resume(outcome, server)
            return
        self._carried_out(outcome)
        server.when_durable(lambda: self._acknowledge(outcome))

    def _acknowledge(self, response: Response) -> None:
        """Send the response to the client, because the changes of the request are durable now."""
        self._acknowledged = True
        if self._warnings:
            response = response.remarked((*self._warnings, *response.warnings), response.annotations)
        network, scope = self._network, self.scope
        if network.partition(scope) is not None or network.strike(FaultKind.OUTCOME_LOST, scope) is not None:
            self._give_up()
            return
        self._respond(response)
        if response.retry_after == 0 and network.strike(FaultKind.OUTCOME_REPEATED, scope) is not None:
            self._respond(response, again=True)

    def _respond(self, response: Response, *, again: bool = False) -> None:
        after = self._network.delay()
        if after > self._remaining and response.sent:
            self._give_up()
        else:
            self._clock.call_after(after, lambda: self._http.do(lambda: self._deliver(response, again=again)))

    def _give_up(self) -> None:
        """Report a timeout to the client when the request's time is over."""
        late = no_answer("timed out")
        self._clock.call_after(max(0.0, self._remaining), lambda: self._http.do(lambda: self._deliver(late)))

    @property
    def _remaining(self) -> float:
        """Remaining seconds until the request's timeout, by the clock of the process."""
        return self._permit.until - self._http.clock.monotonic()

    def _deliver(self, response: Response, *, again: bool = False) -> None:
        if not again:
            if self._answered or self._retry(response):
                return
            self._answered = True
        self._network.note(self._process, f"{self._request.method} {self._request.path} returned {response.status}")
        self._on_response(response)

    def _retry(self, response: Response) -> bool:
        """Retry the request if its response requires it. Return whether it is retried."""
        method, path = self._request.method, self._request.path
        delay = retry_delay(
            method=method,
            status=response.status,
            retry_after=response.retry_after,
            retries=self._retries,
            remaining=self._remaining,
        )
        if delay is None:
            return False
        self._retries += 1
        self._network.note(self._process, f"{method} {path} returned {response.status}, and goes out again")
        self._clock.call_after(delay, lambda: self._http.do(self.depart))
        return True
