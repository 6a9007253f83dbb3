"""Service that makes backups of volumes over HTTP: a client for the backup operator, and a service in memory for tests.

PUT /backups/NUMBER {"source": SOURCE}    starts a backup, or looks at it: {"state": Running, Done or Failed, "bytes"}
DELETE /backups/NUMBER                    deletes it: see remote_service.py
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from remote_service import RemoteClient, RemoteMemory, RemoteObject, http_server


class BackupService(Protocol):
    """Methods of the client and of the service in memory. All of them can be repeated."""

    def start(self, number: str, source: str) -> dict[str, Any]:
        """Start the backup with this number, unless it exists. Return its "state" and "bytes".

        Raises OSError if it was deleted.
        """

    def delete(self, number: str) -> bool:
        """Delete the backup. Return True once it does not exist."""


class BackupClient(RemoteClient):
    """Client of the service. url: such as "http://127.0.0.1:8080"."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url.rstrip('/')}/backups")

    def start(self, number: str, source: str) -> dict[str, Any]:
        return self.put(number, {"source": source})


@dataclass(kw_only=True)
class StoredBackup(RemoteObject):
    ready: float  # time when it is complete

    @property
    def source(self) -> str:
        return self.title


class MemoryService(RemoteMemory[StoredBackup]):
    """Service in memory. A source that contains "broken" fails."""

    def start(self, number: str, source: str) -> dict[str, Any]:
        return self.put(number, {"source": source})

    def _accept(self, number: str, thing: StoredBackup | None, body: Mapping[str, Any]) -> dict[str, Any]:
        if thing is None:
            thing = self._things[number] = StoredBackup(title=str(body["source"]), ready=self._now() + self._takes)
        if self._now() < thing.ready:
            return {"state": "Running", "bytes": 0}
        if "broken" in thing.source:
            return {"state": "Failed", "bytes": 0}
        return {"state": "Done", "bytes": 1000 * len(thing.source)}


if __name__ == "__main__":
    http_server(MemoryService(takes=5.0), 8080).serve_forever()
