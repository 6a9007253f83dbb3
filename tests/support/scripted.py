"""Environment of an actor under test: a transport with scripted responses, and an actor that keeps its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kcm.runtime.client.api import Request, Response
from kcm.runtime.system.actor import Actor, Context


class ScriptedStream:
    """Watch that the informer opened. The test sends its events and its end."""

    def __init__(self, request: Request, on_lines: Callable[[bytes], None], on_end: Callable[[Response], None]) -> None:
        self.request = request
        self._on_lines, self._on_end = on_lines, on_end
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def say(self, *events: tuple[str, Any]) -> None:
        self.raw(b"".join(orjson.dumps({"type": type, "object": obj}) + b"\n" for type, obj in events))

    def raw(self, lines: bytes) -> None:
        self._on_lines(lines)

    def end(self, status: int = 200, **more: Any) -> None:
        self._on_end(Response(status=status, **more))


class ScriptedTransport:
    """Transport that keeps its requests until the test sends the responses."""

    def __init__(self) -> None:
        self.sent: list[tuple[Request, str, Callable[[Response], None]]] = []
        self.streams: list[ScriptedStream] = []

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.sent.append((request, client, on_response))

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> ScriptedStream:
        self.streams.append(ScriptedStream(request, on_lines, on_end))
        return self.streams[-1]

    @property
    def stream(self) -> ScriptedStream:
        """Return the watch that was opened last."""
        return self.streams[-1]

    def answer(self, status: int = 200, body: Any = None, **more: Any) -> Request:
        """Respond to the oldest pending request, and return this request."""
        request, _, on_response = self.sent.pop(0)
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        on_response(Response(status=status, body=raw, **more))
        return request


class Probe(Actor):
    """Actor that keeps the messages that it receives."""

    def __init__(self, context: Context, *, kept: list[Any]) -> None:
        super().__init__(context)
        self._kept = kept

    def receive(self, message: Any) -> None:
        self._kept.append(message)
