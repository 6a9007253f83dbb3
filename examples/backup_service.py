"""Service that makes backups of volumes over HTTP: a client for the backup operator, and a service in memory for tests.

PUT /backups/NUMBER {"source": SOURCE}    starts a backup, or looks at it: {"state": Running, Done or Failed, "bytes"}
DELETE /backups/NUMBER                    deletes it: 202, and 404 once it does not exist

A number is never used again: PUT of a deleted number is 410.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class BackupService(Protocol):
    """Methods of the client and of the service in memory. All of them can be repeated."""

    def start(self, number: str, source: str) -> dict[str, Any]:
        """Start the backup with this number, unless it exists. Return its "state" and "bytes".

        Raises OSError if it was deleted.
        """

    def delete(self, number: str) -> bool:
        """Delete the backup. Return True once it does not exist."""


class BackupClient:
    """Client of the service. Raises OSError if the service cannot be reached or refuses.

    url: of the service, such as "http://127.0.0.1:8080".
    """

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        self._url, self._timeout = url.rstrip("/"), timeout

    def start(self, number: str, source: str) -> dict[str, Any]:
        return self._request("PUT", number, {"source": source})

    def delete(self, number: str) -> bool:
        try:
            self._request("DELETE", number)
        except HTTPError as err:
            if err.code != HTTPStatus.NOT_FOUND:
                raise
            return True
        return False

    def _request(self, method: str, number: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/backups/{number}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=self._timeout) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


@dataclass
class StoredBackup:
    source: str
    ready: float  # time when it is complete
    deleted: float | None = None  # time when it ceases to exist


class GoneError(OSError):
    """The backup was deleted."""


class MemoryService:
    """Service in memory. A source that contains "broken" fails.

    now: a clock, in seconds.
    takes: seconds that a backup, and its deletion, takes.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic, takes: float = 0.2) -> None:
        self._now, self._takes = now, takes
        self._lock = threading.Lock()
        self._stored: dict[str, StoredBackup] = {}
        self._deleted: set[str] = set()

    def start(self, number: str, source: str) -> dict[str, Any]:
        with self._lock:
            self._expire()
            if number in self._deleted or (number in self._stored and self._stored[number].deleted is not None):
                raise GoneError(f"backup {number} was deleted")
            if number not in self._stored:
                self._stored[number] = StoredBackup(source, self._now() + self._takes)
            return self._shown(self._stored[number])

    def delete(self, number: str) -> bool:
        with self._lock:
            self._expire()
            stored = self._stored.get(number)
            if stored is None:
                self._deleted.add(number)
            elif stored.deleted is None:
                stored.deleted = self._now() + self._takes
            return stored is None

    def stored(self) -> dict[str, StoredBackup]:
        """Return all backups that exist, by number."""
        with self._lock:
            self._expire()
            return dict(self._stored)

    def _shown(self, backup: StoredBackup) -> dict[str, Any]:
        if self._now() < backup.ready:
            return {"state": "Running", "bytes": 0}
        if "broken" in backup.source:
            return {"state": "Failed", "bytes": 0}
        return {"state": "Done", "bytes": 1000 * len(backup.source)}

    def _expire(self) -> None:
        for number, backup in list(self._stored.items()):
            if backup.deleted is not None and backup.deleted <= self._now():
                del self._stored[number]
                self._deleted.add(number)


def http_server(service: MemoryService, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of this service on loopback, whose serve_forever() the caller runs."""

    class BackupHandler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 10_000)))
            try:
                self._answer(HTTPStatus.OK, service.start(self._number(), str(body["source"])))
            except GoneError:
                self._answer(HTTPStatus.GONE, {})

        def do_DELETE(self) -> None:
            gone = service.delete(self._number())
            self._answer(HTTPStatus.NOT_FOUND if gone else HTTPStatus.ACCEPTED, {})

        def _number(self) -> str:
            return self.path.removeprefix("/backups/")

        def _answer(self, status: HTTPStatus, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), BackupHandler)


if __name__ == "__main__":
    http_server(MemoryService(takes=5.0), 8080).serve_forever()
