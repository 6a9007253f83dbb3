"""Names of actors, which are the addresses of messages. A name outlives the incarnations of its actor."""

from __future__ import annotations

MANAGER = "controller-manager"
DISPATCHER = "dispatcher"
RECORDER = "event-recorder"
ELECTOR = "elector"
MIGRATION_ELECTOR = "migration-elector"  # for the second Lease of leader migration
GROUP_COORDINATOR = "group-coordinator"  # decides for which groups of controllers this replica competes
ELECTORS = frozenset({ELECTOR, MIGRATION_ELECTOR, GROUP_COORDINATOR})  # in a program with one cluster
LEASE_CANDIDATE = "lease-candidate"
DISCOVERY = "discovery"
WEBHOOK_SERVER = "webhook-server"
INFORMERS = "shared-informers"  # the client of all informers
_INFORMER = "informer:"
_OF_CLUSTER = f"{ELECTOR}:"  # elector of one of several clusters
_OF_GROUP = "group-elector:"  # elector of the Lease of a group of controllers
_CONTROLLER = "controller:"


def elector_name(cluster: str) -> str:
    """Return the name of the elector of a cluster's Lease. cluster: "" in a program with one cluster."""
    return f"{_OF_CLUSTER}{cluster}" if cluster else ELECTOR


def group_elector_name(group: str) -> str:
    """Return the name of the elector of the Lease of a group of controllers."""
    return f"{_OF_GROUP}{group}"


def group_of_elector(name: str) -> str:
    """Return the group of an elector's Lease; "" if its Lease is not that of a group."""
    return name.removeprefix(_OF_GROUP) if name.startswith(_OF_GROUP) else ""


def is_elector(name: str) -> bool:
    """Report whether this actor takes part in leader election, and so writes Leases without holding one."""
    return name in ELECTORS or name.startswith((_OF_CLUSTER, _OF_GROUP))


def cluster_of_elector(name: str) -> str:
    """Return the cluster of an elector's Lease; "" in a program with one cluster."""
    return name.removeprefix(_OF_CLUSTER) if name.startswith(_OF_CLUSTER) else ""


def recorder_name(scope: str) -> str:
    """Return the name of the recorder that writes events under the Lease of a cluster or a group of controllers.

    scope: "" for the main Lease.
    """
    return f"{RECORDER}:{scope}" if scope else RECORDER


def is_recorder(name: str) -> bool:
    return name == RECORDER or name.startswith(f"{RECORDER}:")


def informer_name(table_id: str) -> str:
    """Return the name of the informer of this table. table_id: Table.id, which is Resource.id for a whole table."""
    return f"{_INFORMER}{table_id}"


def table_of(informer: str) -> str:
    """Return the Table.id of this informer's table."""
    return informer.removeprefix(_INFORMER)


def resource_of(informer: str) -> str:
    """Return the Resource.id of this informer's table."""
    return table_of(informer).partition("?")[0]


def is_informer(name: str) -> bool:
    return name.startswith(_INFORMER)


def controller_name(controller: str) -> str:
    """Return the name of a controller's actor. controller: its name in --controllers."""
    return f"{_CONTROLLER}{controller}"


def is_controller(name: str) -> bool:
    return name.startswith(_CONTROLLER)


def controller_of(name: str) -> str | None:
    """Return the controller of the actor with this name, or None if it is not a controller's actor."""
    return name.removeprefix(_CONTROLLER) if is_controller(name) else None
