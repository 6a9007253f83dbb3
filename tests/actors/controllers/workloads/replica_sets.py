"""A ReplicaSet, its pods and the reconciler, to be driven by hand."""

from actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from actors.simulation.driving import Bench, drive
from protocols.objects import owner_reference
from protocols.resources import PODS, REPLICASETS
from tests.actors.objects import pod

KEY = "default/web"
WEB = {"app": "web"}
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
CONTROLLER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "uid-of-d", "controller": True}


def replica_set(replicas=2, *, name="web", labels=WEB, status=None, generation=1, meta=None, **spec):
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "generation": generation,
            **(meta or {}),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "c"}]}},
            **spec,
        },
        "status": status or {"replicas": 0},
    }


def owned(name, owner=None, **options):
    reference = owner_reference(owner or replica_set(), api_version="apps/v1", kind="ReplicaSet")
    return pod(name, **{"labels": WEB, "owner": reference, **options})


class Scene:
    """A ReplicaSet, its pods, and the reconciler; `ratios` is what its metric was told."""

    def __init__(self, log, *replica_sets, pods=(), **options):
        self.bench = Bench({REPLICASETS: replica_sets or [replica_set()], PODS: pods})
        self.clock, self.accept = self.bench.clock, self.bench.accept
        self.ratios = []
        self._arguments = {"clock": self.clock, "log": log, "observe_age_ratio": self.ratios.append, **options}
        self.start()

    def start(self):
        """The first incarnation, or a new one: it knows nothing but what the watches have brought."""
        self.bench.forget_writes()
        self.tables = self.bench.tables
        self.reconciler = ReplicaSetReconciler(tables=self.tables, **self._arguments)

    def sync(self, answer=None, key=KEY, **options):
        return drive(self.reconciler, key, answer or self.accept, tables=self.tables, **options)

    def status(self, key=KEY):
        return self.tables[REPLICASETS].get(key)["status"]

    def pods(self):
        return self.tables[PODS].entries_owned_by("uid-of-web")

    def fail_pods(self, keys):
        """The watch brings these pods, rejected by their node."""
        for key in keys:
            known = self.tables[PODS].get(key)
            meta = {name: value for name, value in known["metadata"].items() if name != "resourceVersion"}
            self.bench.show(PODS, {**known, "metadata": meta, "status": {"phase": "Failed", "reason": "OutOfcpu"}})
