"""Controller with selective watches, which creates a Secret for each ConfigMap that it selects.

It selects ConfigMaps with the label app=web in the namespaces shop and blog. Its Secrets have a label of their own, and
it reads only their metadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.reconciliation import (
    Change,
    Interest,
    Read,
    Reconciliation,
    Watch,
    create,
    delete,
    itself,
    must,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Index, Queue
from kcm.protocols.objects import Key, Object, annotations_of, key_of, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
NAMESPACES = ("shop", "blog")
LABEL, OF = "example.com/mirror", "example.com/of"
MIRROR = "mirror-controller"


def original(obj: Object) -> Iterable[str]:
    return (annotations_of(obj).get(OF, ""),)


def its_original(change: Change, _tables: Tables) -> Iterable[Key]:
    return original(change.new)


class Mirror:
    def __init__(self, tables: Tables) -> None:
        self._configmaps, self._secrets = tables[CONFIGMAPS], tables[SECRETS]

    def reconcile(self, key: Key) -> Reconciliation:
        configmap, mirrors = self._configmaps.get(key), self._secrets.indexed("original", key)
        if any(list(secret) != ["metadata"] for secret in mirrors):
            raise AssertionError("a Secret has more than its metadata")
        if configmap is None:
            for secret in mirrors:
                yield from must(delete(SECRETS, key_of(secret), uid=secret["metadata"]["uid"]))
        elif not mirrors:
            namespace, name = split_key(key)
            meta = {"name": f"{name}-{configmap['metadata']['uid'][:8]}", "namespace": namespace}
            marked = {"labels": {LABEL: "yes"}, "annotations": {OF: key}}
            yield from must(create(SECRETS, {"metadata": {**meta, **marked}}))


def mirror(seen: list[tuple[str, Key]] | None = None) -> ControllerSpec:
    """Return the spec of the controller. seen: list to which (type, key) of each selected ConfigMap change is added."""
    seen = seen if seen is not None else []

    def noted(change: Change, tables: Tables) -> Iterable[Key]:
        seen.append((str(change.type), change.key))
        return itself(change, tables)

    def build(context: ControllerContext) -> Mirror:
        return Mirror(context.tables)

    return ControllerSpec(
        name=MIRROR,
        queues=(
            Queue(
                watches=(
                    Watch(CONFIGMAPS, to=noted, labels="app=web", namespaces=NAMESPACES),
                    Watch(SECRETS, to=its_original, labels=LABEL, namespaces=NAMESPACES, metadata_only=True),
                )
            ),
        ),
        indexes=(Index(SECRETS, "original", original),),
        build=build,
    )


class Idle:
    def reconcile(self, key: Key) -> Reconciliation:
        yield from ()


# Controllers that need more than the mirror: whole objects, or other namespaces and resources as well.
WHOLE = ControllerSpec(
    name="whole-controller",
    queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself, interest=Interest(types=("DELETED",))),)),),
    reads=(SECRETS,),
    build=lambda _context: Idle(),
)
SHOP = ControllerSpec(
    name="shop-controller",
    queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself, namespaces=("shop",)),)),),
    reads=(Read(SECRETS, metadata_only=True),),
    build=lambda _context: Idle(),
)
