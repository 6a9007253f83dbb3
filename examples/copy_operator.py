"""ConfigMaps of one cluster, copied to another: those on `hub` with the label example.com/copied=true, to `edge`.

python examples/copy_operator.py --kubeconfig clusters.kubeconfig    # with the contexts hub and edge
kubectl --context hub label configmap/settings example.com/copied=true
kubectl --context edge get configmap/settings
"""

import sys

from kcm import ControllerSpec, Key, Object, Queue, Reconciliation, Resource, Tables, Watch, main
from kcm.commands import create, delete, record
from kcm.manifests import Permission
from kcm.objects import is_deleting, labels_of
from kcm.outcomes import NotFound
from kcm.specs import itself
from kcm.steps import ensure, must

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SOURCES, COPIES = CONFIGMAPS.on("hub"), CONFIGMAPS.on("edge")
COPIED = {"example.com/copied": "true"}  # label of what is copied
CONTENT = ("data", "binaryData")
COPY = {"example.com/copy-of": "hub"}  # label of a copy


def is_copy(obj: Object) -> bool:
    return COPY.items() <= labels_of(obj).items()


def wanted_copy(source: Object) -> Object:
    meta = {name: source["metadata"][name] for name in ("name", "namespace")}
    return {"metadata": {**meta, "labels": COPY}, **{field: source.get(field) or {} for field in CONTENT}}


class Copies:
    def __init__(self, tables: Tables) -> None:
        self._sources, self._copies = tables[SOURCES], tables[COPIES]

    def reconcile(self, key: Key) -> Reconciliation:
        source, copy = self._sources.get(key), self._copies.get(key)
        if source is None or is_deleting(source):
            if copy is not None and is_copy(copy):
                yield from must(delete(COPIES, copy, depends_on=(SOURCES,)), but=(NotFound,))
        elif copy is None:
            # `ensure` would also change a ConfigMap of others that was created meanwhile. Here it is AlreadyExists.
            yield from must(create(COPIES, wanted_copy(source)))
        elif is_copy(copy):
            yield from ensure(self._copies, wanted_copy(source), exact=CONTENT)
        else:
            yield record(SOURCES, source, "Warning", "NotCopied", "edge has a ConfigMap of this name that is no copy")
        return None


COPIER = ControllerSpec(
    name="copy-controller",
    queues=(
        Queue(
            watches=(
                Watch(SOURCES, to=itself, labels="example.com/copied=true"),
                Watch(COPIES, to=itself),
            ),
        ),
    ),
    build=lambda context: Copies(context.tables),
    permissions=(Permission(COPIES, ("create", "patch", "delete")),),
)

if __name__ == "__main__":
    sys.exit(main([COPIER], name="copy-operator"))
