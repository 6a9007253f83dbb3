"""Declarations of which objects a controller owns. Trials contain them, and several invariants are based on them.

DAEMON_SETS = Trial(controller="daemonset-controller", owns=(Owns(DAEMONSETS, PODS),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, Resource

Count = Callable[[Object], int]


class Owns(Struct, frozen=True):
    """Declaration that a controller creates and deletes `dependents` for each object of the resource `owner`.

    wanted: returns the number of dependents that an owner's spec requests; None if its spec does not determine it.
    pods: returns the maximum number of pods of an owner, including pods of its dependents; by default `wanted`.
    removal: number of writes that remove a pod; two if the controller also removes a finalizer.

    The invariant LiveReadsHaveACause permits additional reads from the server:

    read_once: each incarnation of the controller may read each owner, and its dependents, once.
    read_each_version: each version of an owner or dependent may be read once.
    """

    owner: Resource
    dependents: Resource
    wanted: Count | None = None
    pods: Count | None = None
    removal: int = 1
    read_once: bool = False
    read_each_version: bool = False

    @property
    def most_pods(self) -> Count | None:
        return self.pods or self.wanted

    @property
    def resources(self) -> tuple[str, str]:
        """The resource ids of owner and dependents."""
        return self.owner.id, self.dependents.id


class DeclaredController(NamedTuple):
    """Controller with the objects that its trial declares as its own.

    sender: name of its actor.
    client: user name of its writes.
    owns: owners and dependents.
    deletes: resources of which it may delete objects that it does not own.
    deletes_any: whether it may delete objects of all resources.
    """

    sender: str
    client: str
    owns: Sequence[Owns] = ()
    deletes: Sequence[Resource] = ()
    deletes_any: bool = False


def declared_controller(
    controller: str,
    *,
    client: str = "",
    owns: Sequence[Owns] = (),
    deletes: Sequence[Resource] = (),
    deletes_any: bool = False,
) -> DeclaredController:
    """Return a DeclaredController for the name of a controller. client: by default this name."""
    return DeclaredController(controller_name(controller), client or controller, owns, deletes, deletes_any)


def storage_of(resource: Resource) -> str:
    """Return the name of the resource in StoreChange.storage: "plural.group", or "plural" in the core group."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


class OwnershipIndex:
    """Keepers of a setting, and indexes over them.

    controllers: controllers by the name of their actor.
    dependents: resources of the dependents, by the id of the owner's resource.
    read_once: declarations with `read_once`, by the id of the owner's resource.
    counted: declarations of owners whose spec determines their number of pods, by the owner's kind.
    counted_ids: ids of the resources of these owners.
    senders: names of the actors of controllers that own objects.
    read_each_version: resources of owners and dependents with `read_each_version`.
    pod_senders: names of the actors of controllers with `counted` owners.
    """

    def __init__(self, controllers: Iterable[DeclaredController]) -> None:
        self.controllers: Mapping[str, DeclaredController] = MappingProxyType(
            {controller.sender: controller for controller in controllers}
        )
        every = [owns for controller in self.controllers.values() for owns in controller.owns]
        self.dependents: Mapping[str, frozenset[Resource]] = MappingProxyType(
            {
                owner: frozenset(owns.dependents for owns in every if owns.owner.id == owner)
                for owner in {owns.owner.id for owns in every}
            }
        )
        self.read_once: Mapping[str, Owns] = MappingProxyType({owns.owner.id: owns for owns in every if owns.read_once})
        counted = [owns for owns in every if owns.dependents == PODS and owns.wanted is not None]
        self.counted: Mapping[str, Owns] = MappingProxyType({owns.owner.kind: owns for owns in counted})
        self.counted_ids = frozenset(owns.owner.id for owns in counted)
        self.senders = frozenset(controller.sender for controller in self.controllers.values() if controller.owns)
        self.read_each_version = frozenset(
            resource for owns in every if owns.read_each_version for resource in (owns.owner, owns.dependents)
        )
        self.pod_senders = frozenset(
            controller.sender
            for controller in self.controllers.values()
            if any(owns in counted for owns in controller.owns)
        )

    def replicas(self, owner: Object, kind: str) -> int:
        """Return the number of pods that an owner's spec requests. Raises KeyError for a kind that is not `counted`."""
        wanted = self.counted[kind].wanted
        assert wanted is not None
        return wanted(owner)


def replicas_of(owner: Object) -> int:
    """Return spec.replicas, 1 by default."""
    return int((owner.get("spec") or {}).get("replicas", 1))
