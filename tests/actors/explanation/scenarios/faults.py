"""Objects whose controllers meet faults: of the API server, of the lease, of watches, and of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.actors.engine.elector import Election
from kcm.actors.reconciliation.actor_names import DISPATCHER, MANAGER
from kcm.protocols.messages.lifecycle import Drain
from kcm.protocols.messages.rates import EngageBrake
from kcm.protocols.resources import LEASES
from kcm.protocols.times import format_micro_time
from kcm.runtime.apiserver.registry.users import Access, Decision
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.explanation.scenario import Act, Scenario, Scene

BEGIN = 12.0  # seconds at which a stage is complete
ELECTION = Election(identity="here", namespace="kube-system", name="kcm")
POD_OWNERS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")


def owner_of(kind: str) -> Act:
    def act(scene: Scene) -> tuple[str, str]:
        scene.run(max(0.0, BEGIN + 1.0 - scene.cluster.clock.monotonic()))
        return scene.pod_owner("web", kind=kind)

    return act


def any_owner(scene: Scene) -> tuple[str, str]:
    scene.run(max(0.0, BEGIN + 1.0 - scene.cluster.clock.monotonic()))
    return scene.pod_owner("web", kind=scene.chance.choice(POD_OWNERS))


def _fault(kind: FaultKind, **fields: Any) -> dict[str, Any]:
    return {"faults": (Fault(kind=kind, start=BEGIN, **fields),)}


def lease_elsewhere(scene: Scene) -> tuple[str, str]:
    spec = {"holderIdentity": "elsewhere", "leaseDurationSeconds": 15, "leaseTransitions": 1}

    def renew() -> None:
        time = format_micro_time(scene.cluster.clock.now())
        scene.cluster.merge(LEASES, "kube-system/kcm", {"spec": {**spec, "renewTime": time, "acquireTime": time}})

    renew()
    for _ in range(10):
        scene.run(4.0)
        renew()
    found = scene.pod_owner("web", kind="Deployment")
    for _ in range(8):
        scene.run(4.0)
        renew()
    return found


def scaled(kind: str) -> Callable[[Scene], tuple[str, str]]:
    def act(scene: Scene) -> tuple[str, str]:
        scene.pod_owner("web", kind=kind)
        scene.run(BEGIN + 30.0 - scene.cluster.clock.monotonic())
        scene.merge(kind, "web", {"spec": {"replicas": 3}})
        return kind, "web"

    return act


def braked(scene: Scene) -> tuple[str, str]:
    kind, name = scene.pod_owner("web", kind=scene.chance.choice(("ReplicaSet", "Deployment")), replicas=6)
    scene.run(20.0)
    system = scene.stage.system
    assert system is not None
    system.actors.tell(DISPATCHER, EngageBrake(0.001))
    scene.run(1.0)
    scene.merge(kind, name, {"spec": {"replicas": 0}})
    return kind, name


def denied(scene: Scene) -> tuple[str, str]:
    """Deny the writes of StatefulSets, and the review of this right."""

    def authorize(access: Access) -> Decision:
        return Decision(allowed=access.attributes.get("resource") != "statefulsets")

    scene.cluster.authorize = authorize
    return owner_of("StatefulSet")(scene)


def hangs(scene: Scene) -> tuple[str, str]:
    """Hang at one key: its controller is replaced, and the key is held back."""
    scene.run(max(0.0, BEGIN + 1.0 - scene.cluster.clock.monotonic()))
    scene.pod_owner("other", kind="ReplicaSet", replicas=scene.chance.randint(1, 3))
    return scene.pod_owner("hangs", kind="ReplicaSet")


def queued(scene: Scene) -> tuple[str, str]:
    """Let the only worker wait for the pods of another ReplicaSet."""
    scene.run(max(0.0, BEGIN + 1.0 - scene.cluster.clock.monotonic()))
    scene.pod_owner("slow", kind="ReplicaSet")
    scene.run(1.0)
    return scene.pod_owner("web", kind="ReplicaSet")


def draining(scene: Scene) -> tuple[str, str]:
    """Drain the manager, which waits for a command that has no outcome."""
    system = scene.stage.system
    assert system is not None
    scene.run(max(0.0, BEGIN + 1.0 - scene.cluster.clock.monotonic()))
    scene.pod_owner("slow", kind="ReplicaSet")
    scene.run(1.0)
    system.actors.tell(MANAGER, Drain())
    scene.run(1.0)
    return scene.pod_owner("web", kind=scene.chance.choice(POD_OWNERS))


SLOW_PODS = _fault(FaultKind.REQUEST_HELD, seconds=300.0, process="manager", resource="pods", object="*/slow-*")
SCENARIOS = (
    Scenario(
        name="controller lacks a right",
        code="controller-denied",
        act=denied,
        wait=100.0,  # a right is reviewed once a minute
        stage=_fault(FaultKind.COMMAND_ANSWERED, status=403, process="manager", resource="statefulsets"),
        alone=True,
    ),
    Scenario(
        name="reconciling one object hangs",
        code="key-held-back",
        act=hangs,
        wait=100.0,
        stage=_fault(FaultKind.RECONCILER_BLOCKED, actor="controller:replicaset-controller", object="*/hangs"),
        alone=True,
    ),
    Scenario(
        name="controller cannot list its objects",
        code="controller-waits-for-tables",
        act=owner_of("StatefulSet"),
        stage={
            "faults": (Fault(kind=FaultKind.COMMAND_ANSWERED, status=503, process="manager", resource="statefulsets"),)
        },
        alone=True,
    ),
    Scenario(
        name="server does not respond",
        code="api-server-unreachable",
        act=any_owner,
        stage={"faults": (Fault(kind=FaultKind.SERVER_AWAY, start=BEGIN + 30.0, until=1000.0),)},
        alone=True,
    ),
    Scenario(
        name="lease cannot be acquired",
        code="lease-not-acquired",
        act=any_owner,
        stage={
            "election": ELECTION,
            "faults": (Fault(kind=FaultKind.COMMAND_ANSWERED, status=403, process="manager", resource="leases"),),
        },
        alone=True,
    ),
    Scenario(
        name="server does not answer a command",
        code="waits-for-server",
        act=owner_of("ReplicaSet"),
        stage=_fault(FaultKind.REQUEST_HELD, seconds=300.0, process="manager", resource="pods"),
        alone=True,
    ),
    Scenario(
        name="all workers of the controller are busy",
        code="waits-in-queue",
        act=queued,
        flags=("--concurrent-replicaset-syncs=1",),
        stage=SLOW_PODS,
        alone=True,
    ),
    Scenario(
        name="manager is shutting down", code="manager-draining", act=draining, wait=3.0, stage=SLOW_PODS, alone=True
    ),
    Scenario(name="storm brake holds a smaller workload back", code="storm-brake", act=braked, alone=True),
    Scenario(
        name="lease is held elsewhere",
        code="lease-held-elsewhere",
        act=lease_elsewhere,
        wait=1.0,
        stage={"election": ELECTION},
        alone=True,
    ),
    Scenario(
        name="server refuses the pods with an error",
        code="write-refused|reconcile-fails",
        act=owner_of("ReplicaSet"),
        stage=_fault(FaultKind.COMMAND_ANSWERED, status=500, process="manager", resource="pods"),
        alone=True,
    ),
    Scenario(
        name="server forbids the pods",
        code="not-permitted|write-refused|reconcile-fails",
        act=any_owner,
        stage=_fault(FaultKind.COMMAND_ANSWERED, status=403, process="manager", resource="pods"),
        alone=True,
    ),
    Scenario(
        name="controller crashes",
        code="controller-crash-looping|controller-gave-up|controller-down",
        act=owner_of("StatefulSet"),
        stage=_fault(FaultKind.ACTOR_CRASHED, actor="controller:statefulset-controller"),
        alone=True,
    ),
    Scenario(
        name="controller hangs",
        code="controller-hung|controller-crash-looping|controller-gave-up",
        act=owner_of("StatefulSet"),
        wait=300.0,
        stage=_fault(FaultKind.ACTOR_HUNG, actor="controller:statefulset-controller"),
        alone=True,
    ),
    Scenario(
        name="server no longer lists a resource",
        code="stale-table",
        act=scaled("ReplicaSet"),
        wait=120.0,
        flags=("--watch-silence-limit=20s",),
        stage={
            "faults": (
                Fault(kind=FaultKind.WATCH_DROPPED, start=BEGIN + 20.0, process="manager", resource="replicasets"),
                Fault(
                    kind=FaultKind.COMMAND_ANSWERED,
                    status=503,
                    start=BEGIN + 20.0,
                    process="manager",
                    resource="replicasets",
                ),
            )
        },
        alone=True,
    ),
)
