"""Services outside the cluster that keep things by number: a client over HTTP, and a service in memory for tests.

PUT /THINGS/NUMBER {...}    creates the thing with this number, changes it, or looks at it: 200 with its state
DELETE /THINGS/NUMBER       deletes it: 202, and 404 once it does not exist

All requests can be repeated. A number is never used again: PUT of a deleted number is 410.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

LARGEST = 10_000  # bytes of a request


class RemoteClient:
    """Client of a service. Raises OSError if the service cannot be reached or refuses.

    url: of the things, such as "http://127.0.0.1:8080/backups".
    """

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        self._url, self._timeout = url, timeout

    def put(self, number: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or change the thing with this number, and return its state."""
        return self._request("PUT", number, body)

    def delete(self, number: str) -> bool:
        """Delete the thing. Return True once it does not exist; until then call this again."""
        try:
            self._request("DELETE", number)
        except HTTPError as err:
            if err.code != HTTPStatus.NOT_FOUND:
                raise
            return True
        return False

    def _request(self, method: str, number: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/{number}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=self._timeout) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


@dataclass(kw_only=True)
class RemoteObject:
    """Thing that a service keeps. deleted: time when it ceases to exist; None: it stays."""

    title: str
    deleted: float | None = None


class GoneError(OSError):
    """The thing was deleted."""


S = TypeVar("S", bound=RemoteObject)


class RemoteMemory(ABC, Generic[S]):
    """Service in memory.

    now: a clock, in seconds.
    takes: seconds that a change, and a deletion, takes.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic, takes: float = 0.2) -> None:
        self._now, self._takes = now, takes
        self._lock = threading.Lock()
        self._things: dict[str, S] = {}  # by number
        self._deleted: set[str] = set()

    @abstractmethod
    def _accept(self, number: str, thing: S | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the thing, or change it, and return its state. Raises KeyError, TypeError for a malformed body."""

    def put(self, number: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or change the thing with this number, and return its state. Raises GoneError if it was deleted."""
        with self._lock:
            self._expire()
            thing = self._things.get(number)
            if number in self._deleted or (thing is not None and thing.deleted is not None):
                raise GoneError(f"{number} was deleted")
            return self._accept(number, thing, body)

    def delete(self, number: str) -> bool:
        """Delete the thing. Return True once it does not exist; until then call this again."""
        with self._lock:
            self._expire()
            thing = self._things.get(number)
            if thing is None:
                self._deleted.add(number)
            elif thing.deleted is None:
                thing.deleted = self._now() + self._takes
            return thing is None

    def stored(self) -> dict[str, S]:
        """Return all things that exist, by number."""
        with self._lock:
            self._expire()
            return dict(self._things)

    def _expire(self) -> None:
        for number, thing in list(self._things.items()):
            if thing.deleted is not None and thing.deleted <= self._now():
                del self._things[number]
                self._deleted.add(number)


def http_server(service: RemoteMemory[Any], port: int = 0) -> ThreadingHTTPServer:
    """Return a server of this service on loopback, whose serve_forever() the caller runs."""

    class RemoteHandler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            try:
                body = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), LARGEST)))
                self._answer(HTTPStatus.OK, service.put(self._number(), body))
            except GoneError:
                self._answer(HTTPStatus.GONE, {})
            except (KeyError, TypeError, ValueError) as err:
                self._answer(HTTPStatus.BAD_REQUEST, {"message": f"{type(err).__name__}: {err}"})

        def do_DELETE(self) -> None:
            gone = service.delete(self._number())
            self._answer(HTTPStatus.NOT_FOUND if gone else HTTPStatus.ACCEPTED, {})

        def _number(self) -> str:
            return self.path.rpartition("/")[2]

        def _answer(self, status: HTTPStatus, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), RemoteHandler)
