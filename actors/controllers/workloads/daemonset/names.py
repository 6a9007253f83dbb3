"""Names of a DaemonSet's pods, chosen so that a creation with unknown outcome is not repeated under another name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm.actors.controllers.shared.generated_names import generated_name
from kcm.actors.controllers.shared.pod_control import Creations
from kcm.actors.controllers.shared.unknown_outcomes import UnknownOutcomes
from kcm.protocols.objects import Key, Object, namespace_of, resource_version_of, split_key


class PodNames:
    """The names of one DaemonSet's newest pods that its lister may not show.

    The name for a node derives from the node and the DaemonSet's resourceVersion, so a new incarnation, which has no
    memory, chooses the same name again. Under one resourceVersion a node may get several pods, one after the other:
    names that were used under it are not used again.
    """

    __slots__ = ("_unknown", "_used", "_version")

    def __init__(self) -> None:
        self._version = ""
        self._used: set[Key] = set()  # keys of pods that existed under this resourceVersion
        self._unknown = UnknownOutcomes[str]()  # the purpose of a pod is its node

    def choose(self, owner: Object, nodes: Sequence[str], *, taken: Callable[[Key], bool]) -> dict[str, str]:
        """Return the names of the pods to create, each with its node, in the order of these nodes."""
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
        """Remember the outcomes of the creations of these pods. resolved: keys returned by fetch_existing."""
        self._used.update(creations.created)
        self._used.update(resolved)
        self._unknown.record_creations(creations, resolved, purposes=chosen)
