"""The names of a DaemonSet's pods, chosen so that a creation whose outcome was lost is not made twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm.actors.controllers.shared.generated_names import generated_name
from kcm.protocols.objects import Key, Object, make_key, namespace_of, resource_version_of, split_key


class PodNames:
    """What is known of the names of one DaemonSet's newest pods, beside what its listers show.

    The name for a node derives from the node and the DaemonSet's version, so a new incarnation, which knows nothing,
    chooses the same one again. In one version a node may get several pods, one after the other: names that were used in
    it are not used again.
    """

    __slots__ = ("_unanswered", "_used", "_version")

    def __init__(self) -> None:
        self._version = ""
        self._used: set[Key] = set()  # by pods that were there in this version
        self._unanswered: dict[str, str] = {}  # by node, the name of a pod that may have been created

    def choose(self, owner: Object, nodes: Sequence[str], *, taken: Callable[[Key], bool]) -> dict[str, str]:
        """Names of pods for these nodes, with their nodes, in that order."""
        version, namespace = resource_version_of(owner), namespace_of(owner)
        if version != self._version:
            self._version, self._used = version, set()
        chosen: dict[str, str] = {}

        def is_used(key: Key) -> bool:
            return key in self._used or split_key(key)[1] in chosen or taken(key)

        for node in nodes:
            again = self._unanswered.get(node)
            if again is None or again in chosen or taken(make_key(namespace, again)):
                again = generated_name(owner, node, taken=is_used)
            chosen[again] = node
        return chosen

    def settle(self, chosen: Mapping[str, str], *, known: Iterable[Key], unanswered: Iterable[str]) -> None:
        """After creations. known: keys of pods of which is known whether they are there. unanswered: names."""
        self._used.update(known)
        for key in known:
            self._unanswered.pop(chosen.get(split_key(key)[1], ""), None)
        for name in unanswered:
            self._unanswered[chosen[name]] = name
