"""Provider of a DNS zone over HTTP: a client for the DNS operator, and a provider in memory for tests.

PUT /records/NUMBER {"name", "type", "values", "ttl", "generation"}    publishes it, or looks at it: {"state": STATE}
DELETE /records/NUMBER                                                 deletes it: see remote_service.py

STATE is Propagating, Active, or Taken: a name and type belong to the number that had them first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from remote_service import RemoteClient, RemoteMemory, RemoteObject, http_server


class DnsProvider(Protocol):
    """Methods of the client and of the provider in memory. All of them can be repeated."""

    def put(self, number: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Publish the record, and return its "state". A request that arrives late does not undo a newer one.

        Raises OSError if the number was deleted.
        """

    def delete(self, number: str) -> bool:
        """Delete the record. Return True once it does not exist."""


class DnsClient(RemoteClient):
    """Client of the provider. url: such as "http://127.0.0.1:8053"."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url.rstrip('/')}/records")


@dataclass(kw_only=True)
class StoredRecord(RemoteObject):
    """Record of the zone. title: its name and type."""

    values: tuple[str, ...]
    ttl: int
    generation: int  # of the spec that it is from
    active: float  # time when all name servers have it


class MemoryZone(RemoteMemory[StoredRecord]):
    """Provider in memory."""

    def _accept(self, number: str, thing: StoredRecord | None, body: Mapping[str, Any]) -> dict[str, Any]:
        title, values, ttl = f"{body['name']} {body['type']}", tuple(map(str, body["values"])), int(body["ttl"])
        generation, now = int(body["generation"]), self._now()
        if any(other.title == title and key != number for key, other in self._things.items()):
            return {"state": "Taken"}
        if thing is None or (generation >= thing.generation and (thing.values, thing.ttl) != (values, ttl)):
            thing = StoredRecord(title=title, values=values, ttl=ttl, generation=generation, active=now + self._takes)
            self._things[number] = thing
        thing.generation = max(thing.generation, generation)
        return {"state": "Active" if now >= thing.active else "Propagating"}

    def edit(self, title: str, values: tuple[str, ...]) -> None:
        """Change the values of a record by hand, as in the provider's web pages."""
        with self._lock:
            for thing in self._things.values():
                if thing.title == title:
                    thing.values = values


if __name__ == "__main__":
    http_server(MemoryZone(takes=5.0), 8053).serve_forever()
