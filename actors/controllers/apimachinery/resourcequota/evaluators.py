"""Access to quota evaluators, which compute the usage of objects, and to the informer caches of counted objects.

The controller watches Pods, Services, PersistentVolumeClaims and ResourceQuotas. Other resources are watched when they
are discovered: whole objects of ResourceClaims and DeviceClasses, and only the metadata of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kcm.actors.controllers.apimachinery.resourcequota.usage_cache import UsageCache
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.objects import Key, Object, make_key
from kcm.protocols.quota import resource_claims
from kcm.protocols.quota.amounts import equal, read_amounts
from kcm.protocols.quota.calculation import NotCountedError
from kcm.protocols.quota.evaluators import IGNORED, Evaluator
from kcm.protocols.quota.pods import Pods
from kcm.protocols.quota.resource_claims import DeviceClasses, ResourceClaims
from kcm.protocols.quota.services import Services
from kcm.protocols.quota.volume_claims import VolumeClaims
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES, Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import TableMissingError, Tables

DEVICE_CLASSES = "deviceclasses.resource.k8s.io"
WHOLE_OBJECTS = frozenset({DEVICE_CLASSES, resource_claims.RESOURCE})
COUNTED = frozenset({"create", "list", "watch", "delete"})  # verbs that a resource must support to be counted
STATIC = (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_QUOTAS)
QUOTAS = Evaluator(RESOURCE_QUOTAS.name)


def is_counted(served: ServedResource) -> bool:
    """Report whether the controller needs an informer cache of this resource.

    DeviceClasses are not limited by quotas, but the evaluation of ResourceClaims reads them.
    """
    name = served.resource.name
    if name in IGNORED or not COUNTED.issubset(served.verbs):
        return False
    return served.namespaced or name == DEVICE_CLASSES


def is_metadata_enough(served: ServedResource) -> bool:
    return served.resource.name not in WHOLE_OBJECTS


class EvaluationContext:
    """The quota evaluators of all served resources, and access to the objects in informer caches that they evaluate."""

    def __init__(self, tables: Tables, now: Callable[[], float] = lambda: 0.0) -> None:
        """Initialize the evaluators; no objects are read yet.

        now: returns Unix seconds. It is called only when objects are counted, to exclude pods whose grace period is
            over. Callers that need only the evaluators may omit it.
        """
        self._tables, self.now = tables, now
        self._cache = UsageCache()

    def evaluators(self) -> Iterator[Evaluator]:
        """Yield an evaluator for each namespaced resource."""
        yield Pods(self.now)
        yield Services()
        yield VolumeClaims()
        yield QUOTAS
        for resource in self._discovered():
            if resource.namespaced:
                yield self.evaluator(resource)

    def evaluator(self, resource: Resource) -> Evaluator:
        """Return the quota evaluator of a discovered resource, which computes the usage of its objects."""
        return ResourceClaims(self) if resource.name == resource_claims.RESOURCE else Evaluator(resource.name)

    def lister(self, evaluator: Evaluator) -> Lister:
        """Return the lister of the resource that the evaluator counts.

        Raises NotCountedError if the resource is not served or its informer has not synced.
        """
        for resource in (*STATIC, *self._discovered()):
            if resource.name == evaluator.resource:
                try:
                    return self._tables[resource]
                except TableMissingError as err:
                    raise NotCountedError(f"{resource} not yet synced") from err
        raise NotCountedError(f"{evaluator.resource} is not served")

    def fill_cache(self, evaluator: Evaluator, namespace: str) -> bool:
        """Decode one batch of the namespace's objects into the cache. Return whether all objects are in the cache now.

        The caller repeats this until it returns True, and lets other actors run in between. Then `objects` is fast.
        """
        if not evaluator.has_essence:
            return True
        try:
            return self._cache.read(evaluator, self.lister(evaluator), namespace)
        except NotCountedError:
            return True

    def objects(self, evaluator: Evaluator, namespace: str) -> Sequence[Object]:
        """Return the objects of a namespace, in the form that the evaluator's `usage` expects.

        These are whole objects, only the fields that affect usage (essences), or empty maps if the evaluator only
        counts objects. Raises NotCountedError if an object is unreadable.
        """
        lister = self.lister(evaluator)
        for entry in lister.unreadable(namespace):
            raise NotCountedError(f"{lister.resource} {entry.key} cannot be read: {entry.why}")
        if evaluator.has_essence:
            return self._cache.essences(evaluator, lister, namespace)
        if evaluator.needs_objects:
            return lister.objects(namespace)
        return [{}] * len(lister.entries(namespace))

    def converted(self, evaluator: Evaluator, objects: Sequence[Object], namespace: str) -> Sequence[Object]:
        """Convert objects that were listed from the API server to the form that the evaluator's `usage` expects.

        This is the form that `objects` returns for objects in the informer cache. Raises NotCountedError if an object
        is malformed.
        """
        return self._cache.essences_of(evaluator, objects, namespace) if evaluator.has_essence else objects

    def forget(self, namespace: str) -> None:
        self._cache.forget(namespace)

    # Used by the evaluator of ResourceClaims.

    def device_classes(self) -> DeviceClasses:
        return DeviceClasses(self._objects_of(DEVICE_CLASSES, None))

    def pod(self, namespace: str, name: str) -> Object | None:
        return self._tables[PODS].get(make_key(namespace, name))

    def claims(self, namespace: str) -> Iterable[Object]:
        return self._objects_of(resource_claims.RESOURCE, namespace)

    def _objects_of(self, name: str, namespace: str | None) -> Iterable[Object]:
        for resource in self._tables.discovered():
            if resource.name == name:
                return self._tables[resource].objects(namespace)
        return ()

    def _discovered(self) -> tuple[Resource, ...]:
        return (*self._tables.discovered(), *self._tables.arriving())


def limits(quota: Mapping[str, Object]) -> Object:
    return (quota.get("spec") or {}).get("hard") or {}


def status_of(quota: Mapping[str, Object]) -> Object:
    return quota.get("status") or {}


def is_uncounted(quota: Object, evaluators: Iterable[Evaluator]) -> bool:
    """Report whether the status of a ResourceQuota is incomplete.

    That is the case if status.hard differs from spec.hard, or if status.used lacks a limited resource that one of the
    evaluators counts.
    """
    status = status_of(quota)
    if not equal(read_amounts(limits(quota)), read_amounts(status.get("hard"))):
        return True
    missing = (status.get("hard") or {}).keys() - (status.get("used") or {}).keys()
    return bool(missing) and any(evaluator.matching(missing) for evaluator in evaluators)


def quotas_of(evaluator: Evaluator, quotas: Lister, namespace: str) -> Iterator[Key]:
    """Yield the keys of the ResourceQuotas in a namespace that limit the resource of this evaluator."""
    for entry in quotas.entries(namespace):
        if evaluator.matching(status_of(quotas.object_of(entry)).get("hard") or ()):
            yield entry.key
