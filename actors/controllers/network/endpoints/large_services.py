"""Addresses of Services with more pods than Endpoints may contain addresses, kept sorted from one sync to the next.

A sync computes the addresses of the pods that have changed, and takes the first 1,000. The result is that of
kcm.actors.controllers.network.shared.subsets.repacked and truncated.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any

from kcm.actors.controllers.network.endpoints.capacity import CAPACITY, NOT_READY, READY
from kcm.actors.controllers.network.shared.subsets import Address, Host, host_of
from kcm.protocols.objects import Key, Object
from kcm.runtime.tables.table import Entry

Contribution = tuple[Address, bool]  # address of a pod, and whether it is ready


class LargeService:
    """Addresses of the pods of one Service whose pods all have the same ports.

    version: resourceVersion of the Service
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self._pods: frozenset[Entry] = frozenset()
        self._addresses: dict[Host, Address] = {}
        self._hosts: dict[bool, list[Host]] = {True: [], False: []}  # sorted, by whether they are ready
        self._of_pod: dict[Key, tuple[Host, bool]] = {}

    def update(self, pods: Sequence[Entry], contribution_of: Callable[[Entry], Contribution | None]) -> None:
        """Take over what has changed. pods: all pods that the Service selects now."""
        now = frozenset(pods)
        for pod in self._pods - now:
            known = self._of_pod.pop(pod.key, None)
            if known is not None:
                host, ready = known
                del self._hosts[ready][bisect_left(self._hosts[ready], host)]
                del self._addresses[host]
        for pod in now - self._pods:
            contribution = contribution_of(pod)
            if contribution is not None:
                address, ready = contribution
                host = host_of(address)
                insort(self._hosts[ready], host)
                self._addresses[host] = address
                self._of_pod[pod.key] = host, ready
        self._pods = now

    @property
    def is_over_capacity(self) -> bool:
        return len(self._of_pod) > CAPACITY

    def subsets(self, ports: list[Object]) -> list[Object]:
        """Return the subsets of truncated Endpoints. ports: of all pods."""
        ready = self._hosts[True][:CAPACITY]
        not_ready = self._hosts[False][: CAPACITY - len(ready)]
        subset: dict[str, Any] = {
            READY: [self._addresses[host] for host in ready],
            NOT_READY: [self._addresses[host] for host in not_ready],
            "ports": ports,
        }
        return [{field: value for field, value in subset.items() if value}]
