"""Pods that no node takes."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario, Scene, resource_of

APP = {"matchLabels": {"app": "apart"}}
HOST = "kubernetes.io/hostname"
OWNERS = ("Deployment", "StatefulSet", "ReplicaSet", "Pod")  # the DaemonSet controller decides about nodes itself


def _owner(scene: Scene) -> str:
    return scene.chance.choice(OWNERS)


def resources(scene: Scene) -> tuple[str, str]:
    requests = scene.chance.choice(({"cpu": "500"}, {"memory": "4Ti"}, {"example.com/gpu": "1"}))
    resources = {"requests": requests, "limits": requests}
    return scene.pod_owner("large", kind=_owner(scene), container={"resources": resources})


def selector(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("ssd", kind=_owner(scene), nodeSelector={"disk": "ssd"})


def affinity(scene: Scene) -> tuple[str, str]:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["moon"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return scene.pod_owner("moon", kind=_owner(scene), affinity={"nodeAffinity": required})


def taints(scene: Scene) -> tuple[str, str]:
    for node in scene.cluster.list(resource_of("node")):
        taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
        scene.merge("node", node["metadata"]["name"], {"spec": {"taints": [taint]}})
    scene.run(2.0)  # the scheduler would bind a pod before it sees the taints
    return scene.pod_owner("tainted", kind=_owner(scene))


def cordoned(scene: Scene) -> tuple[str, str]:
    for node in scene.cluster.list(resource_of("node")):
        scene.merge("node", node["metadata"]["name"], {"spec": {"unschedulable": True}})
    scene.run(2.0)
    return scene.pod_owner("cordoned", kind=_owner(scene))


def no_nodes(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("alone", kind=_owner(scene))


def anti_affinity(scene: Scene) -> tuple[str, str]:
    term = {"labelSelector": APP, "topologyKey": HOST}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return scene.pod_owner("apart", kind="Deployment", replicas=4, affinity=required)


def spread(scene: Scene) -> tuple[str, str]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return scene.pod_owner("spread", kind=_owner(scene), topologySpreadConstraints=[constraint])


def host_port(scene: Scene) -> tuple[str, str]:
    ports = [{"containerPort": 80, "hostPort": 18080}]
    return scene.pod_owner("port", kind="Deployment", replicas=4, container={"ports": ports})


def gates(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("gated", kind=_owner(scene), schedulingGates=[{"name": "example.com/quota"}])


def other_scheduler(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("other", kind=_owner(scene), schedulerName="batch-scheduler")


def other_reason(scene: Scene) -> tuple[str, str]:
    """Refuse a pod as another scheduler does, for a reason of its own."""
    kind, name = scene.pod_owner("other", kind="Pod", schedulerName="batch-scheduler")
    message = "0/3 nodes are available: 3 node(s) are reserved for the night."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    scene.merge(kind, name, {"status": {"conditions": [condition]}}, subresource="status")
    return kind, name


def missing_claim(scene: Scene) -> tuple[str, str]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]
    return scene.pod_owner("claims", kind=_owner(scene), volumes=volumes)


SCENARIOS = (
    Scenario(name="resources are not free", code="insufficient-resources", act=resources),
    Scenario(name="node selector matches no node", code="node-affinity", act=selector),
    Scenario(name="node affinity matches no node", code="node-affinity", act=affinity),
    Scenario(name="taints are not tolerated", code="untolerated-taint", act=taints, alone=True),
    Scenario(name="all nodes are cordoned", code="nodes-unschedulable", act=cordoned, alone=True),
    Scenario(name="there are no nodes", code="no-nodes", act=no_nodes, stage={"nodes": 0}),
    Scenario(name="anti-affinity excludes the nodes", code="pod-affinity", act=anti_affinity),
    Scenario(name="topology spread excludes the nodes", code="topology-spread", act=spread),
    Scenario(name="host port is taken", code="host-port", act=host_port),
    Scenario(name="pod has scheduling gates", code="scheduling-gates", act=gates),
    Scenario(name="scheduler does not exist", code="no-scheduler", act=other_scheduler),
    Scenario(name="another scheduler has a reason of its own", code="unschedulable", act=other_reason),
    Scenario(name="claim of the pod does not exist", code="claim-missing", act=missing_claim),
)
