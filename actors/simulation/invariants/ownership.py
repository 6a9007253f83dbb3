"""Which controller keeps which dependents for which owners, as trials declare it: what invariants attach to.

DAEMON_SETS = Trial(controller="daemonset-controller", owns=(Owns(DAEMONSETS, PODS),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, Resource

Count = Callable[[Object], int]


@dataclass(frozen=True, slots=True)
class Owns:
    """A controller creates and deletes `dependents` for each object of `owner`.

    wanted: how many dependents an owner wants, where its spec alone says so; else None. pods: how many pods it may have
    at once, by its spec alone and be it through its dependents; by default `wanted`. removal: how many writes take a
    pod away: two where it has a finalizer. asked: an incarnation asks the server once for each owner, and for its
    dependents, before it does what must not be done twice. looks: it reads both live before it acts, where a table may
    be late, each version once. Other live looks need a reason (calls.py).
    """

    owner: Resource
    dependents: Resource
    wanted: Count | None = None
    pods: Count | None = None
    removal: int = 1
    asked: bool = False
    looks: bool = False

    @property
    def most_pods(self) -> Count | None:
        return self.pods or self.wanted

    @property
    def resources(self) -> tuple[str, str]:
        """The ids of both."""
        return self.owner.id, self.dependents.id


class Keeper(NamedTuple):
    """A controller of a setting. sender: its actor. client: in whose name it writes.

    deletes: resources of which it may delete objects that it does not own. deletes_any: of all resources.
    """

    sender: str
    client: str
    owns: Sequence[Owns] = ()
    deletes: Sequence[Resource] = ()
    deletes_any: bool = False


def keeper(
    controller: str,
    *,
    client: str = "",
    owns: Sequence[Owns] = (),
    deletes: Sequence[Resource] = (),
    deletes_any: bool = False,
) -> Keeper:
    """Of a controller by its name."""
    return Keeper(controller_name(controller), client or controller, owns, deletes, deletes_any)


def storage_of(resource: Resource) -> str:
    """As changes of the server's state name it."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


class Ownership:
    """The keepers of a setting, and what follows from them.

    keepers: by their actor's name. looked_at: what is read live as a rule. dependents: what each resource owns, by its
    id. counted: owners of a known number of pods, by their kind.
    """

    def __init__(self, keepers: Iterable[Keeper]) -> None:
        self.keepers: Mapping[str, Keeper] = MappingProxyType({each.sender: each for each in keepers})
        every = [owns for each in self.keepers.values() for owns in each.owns]
        self.dependents: Mapping[str, frozenset[Resource]] = MappingProxyType(
            {
                owner: frozenset(owns.dependents for owns in every if owns.owner.id == owner)
                for owner in {owns.owner.id for owns in every}
            }
        )
        self.asked: Mapping[str, Owns] = MappingProxyType({owns.owner.id: owns for owns in every if owns.asked})
        counted = [owns for owns in every if owns.dependents == PODS and owns.wanted is not None]
        self.counted: Mapping[str, Owns] = MappingProxyType({owns.owner.kind: owns for owns in counted})
        self.counted_ids = frozenset(owns.owner.id for owns in counted)
        self.senders = frozenset(each.sender for each in self.keepers.values() if each.owns)
        self.looked_at = frozenset(each for owns in every if owns.looks for each in (owns.owner, owns.dependents))
        self.pod_senders = frozenset(
            each.sender for each in self.keepers.values() if any(owns in counted for owns in each.owns)
        )

    def replicas(self, owner: Object, kind: str) -> int:
        """How many pods an owner of this kind wants. Raises KeyError if that is not known."""
        wanted = self.counted[kind].wanted
        assert wanted is not None
        return wanted(owner)


def replicas_of(owner: Object) -> int:
    """spec.replicas, which is 1 where it is left out."""
    return int((owner.get("spec") or {}).get("replicas", 1))
