"""All controllers that are built in: what each is called, what it watches, how it is built."""

from __future__ import annotations

from actors.nodes.catalogue import NODES
from actors.nodes.cloud_services import CLOUD_SERVICES
from actors.nodes.node_services import NODE_SERVICES
from actors.specs import ControllerSpec
from actors.workloads.catalogue import WORKLOADS

BUILT_IN: tuple[ControllerSpec, ...] = (*WORKLOADS, *NODES, *NODE_SERVICES, *CLOUD_SERVICES)
