"""How many virtual seconds the simulator passes in a real one."""

from __future__ import annotations

import time
from typing import Any

import structlog

from actors.simulation import SimulatedCluster
from protocols.resources import DEPLOYMENTS


def simulated_seconds() -> dict[str, float]:
    """By scene: a 3-node cluster with one Deployment rolling over and over, and the same at rest."""
    log = structlog.wrap_logger(None, processors=[_drop])
    cluster = SimulatedCluster(log=log)
    cluster.hollow_nodes(nodes=3)
    cluster.manager()
    cluster.run_for(5.0)
    cluster.create(DEPLOYMENTS, deployment("image:0"))
    cluster.run_for(30.0)
    began, rolls = time.perf_counter(), 20
    for i in range(rolls):
        cluster.merge(
            DEPLOYMENTS, "default/web", {"spec": {"template": deployment(f"image:{i + 1}")["spec"]["template"]}}
        )
        cluster.run_for(60.0)
    rolling = rolls * 60.0 / (time.perf_counter() - began)
    began = time.perf_counter()
    cluster.run_for(3600.0)
    return {"3 nodes, a rollout a minute": rolling, "3 nodes at rest": 3600.0 / (time.perf_counter() - began)}


def deployment(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": image}]
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent
