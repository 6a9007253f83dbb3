"""The simulator's way to the embedded API server's core: a Transport without HTTP, on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.api import Request, Response
from runtime.embedded.server import ApiServer
from runtime.embedded.watches import Watch
from runtime.simulation.clock import VirtualClock


class SimulatedTransport:
    """Implements runtime.api.Transport. Each way takes `latency` to twice that many virtual seconds.

    What is said on one watch arrives in order.
    """

    def __init__(
        self, server: ApiServer, *, clock: VirtualClock, random: random.Random, latency: float = 0.001
    ) -> None:
        self._server, self._clock, self._random, self._latency = server, clock, random, latency
        self.requests: list[tuple[float, str, Request]] = []  # (when, client, request), for tests to look at

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.requests.append((self._clock.monotonic(), client, request))

        def arrive() -> None:
            response = self._server.handle(request)
            self._clock.call_after(self._delay(), lambda: on_response(response))

        self._clock.call_after(self._delay(), arrive)

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> SimulatedStream:
        self.requests.append((self._clock.monotonic(), client, request))
        stream = SimulatedStream(self._clock, self._delay(), on_lines, on_end)

        def arrive() -> None:
            if stream.cancelled:
                return
            begun = self._server.watch(request, deliver=stream.deliver, end=stream.end)
            if isinstance(begun, Response):
                stream.end(begun)
            else:
                stream.watch = begun

        self._clock.call_after(self._delay(), arrive)
        return stream

    def _delay(self) -> float:
        return self._latency * (1 + self._random.random())


class SimulatedStream:
    """A running watch; its delay is drawn once, so that its lines stay in order."""

    def __init__(
        self,
        clock: VirtualClock,
        delay: float,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> None:
        self._clock, self._delay = clock, delay
        self._on_lines, self._on_end = on_lines, on_end
        self.watch: Watch | None = None
        self.cancelled = False

    def deliver(self, lines: bytes) -> None:
        self._clock.call_after(self._delay, lambda: None if self.cancelled else self._on_lines(lines))

    def end(self, response: Response) -> None:
        self._clock.call_after(self._delay, lambda: None if self.cancelled else self._on_end(response))

    def cancel(self) -> None:
        self.cancelled = True
        if self.watch is not None:
            self.watch.cancel()
