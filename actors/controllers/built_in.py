"""All controllers that are built in: what each is called, what it watches, how it is built."""

from __future__ import annotations

from actors.controllers.cloud.catalogue import CLOUD_SERVICES
from actors.controllers.nodes.catalogue import NODES
from actors.controllers.nodes.node_services import NODE_SERVICES
from actors.controllers.workloads import deployment, replicaset, replicationcontroller
from actors.reconciliation.specs import ControllerSpec

BUILT_IN: tuple[ControllerSpec, ...] = (
    replicationcontroller.SPEC,
    replicaset.SPEC,
    deployment.SPEC,
    *NODES,
    *NODE_SERVICES,
    *CLOUD_SERVICES,
)
