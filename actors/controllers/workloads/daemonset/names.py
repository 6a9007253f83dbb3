"""Deterministic pod names for a DaemonSet, so that a creation with unknown outcome is retried under the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm.actors.controllers.shared.generated_names import generated_name
from kcm.actors.controllers.shared.pod_control import Creations
from kcm.actors.controllers.shared.unknown_outcomes import UnknownOutcomes
from kcm.protocols.objects import Key, Object, namespace_of, resource_version_of, split_key


class PodNames:
    """Chooses the names of the pods that one DaemonSet creates.

    A name is derived from the node and the DaemonSet's resourceVersion, so that the controller chooses the same name
    after a restart. While the resourceVersion stays the same, a node can need several pods in succession; names already
    used under that resourceVersion are skipped.
    """

    __slots__ = ("_unknown", "_used", "_version")

    def __init__(self) -> None:
        self._version = ""
        self._used: set[Key] = set()  # keys of pods that existed under this resourceVersion
        self._unknown = UnknownOutcomes[str]()  # the purpose of a pod is its node

    def choose(self, owner: Object, nodes: Sequence[str], *, taken: Callable[[Key], bool]) -> dict[str, str]:
        """Return the node of each pod to create, by the name chosen for the pod, in the order of `nodes`.

        taken: reports whether a pod with this key exists.
        """
        version, namespace = resource_version_of(owner), namespace_of(owner)
        if version != self._version:
            self._version, self._used = version, set()
        chosen: dict[str, str] = {}

        def is_used(key: Key) -> bool:
            return key in self._used or split_key(key)[1] in chosen or taken(key)

        retried = {node: name for name, node in self._unknown.names_to_retry(namespace, taken=taken).items()}
        for node in nodes:
            name = retried.get(node)
            if name is None or name in chosen:
                name = generated_name(owner, node, taken=is_used)
            chosen[name] = node
        return chosen

    def record(self, chosen: Mapping[str, str], creations: Creations, resolved: Iterable[Key]) -> None:
        """Record the outcomes of these creations, so that names with unknown outcome are retried.

        resolved: keys that fetch_existing has returned.
        """
        self._used.update(creations.created)
        self._used.update(resolved)
        self._unknown.record_creations(creations, resolved, purposes=chosen)
