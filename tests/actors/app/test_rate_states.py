"""Rates of zones and API clients, and the storm brake, as users see and change them, in a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest
from structlog.testing import LogCapture

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.controllers.nodes.node_lifecycle.reconciler import NAME as NODE_LIFECYCLE
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import zone_queue_name
from kcm.actors.engine.elector import Election
from kcm.actors.options import InvalidOptionsError
from kcm.actors.reconciliation.actor_names import DISPATCHER, controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.serving.debug_pages import ChangeRefusedError
from kcm.runtime.serving.health import HealthNotice
from tests.actors.controllers.nodes.fleet import Fleet
from tests.actors.controllers.nodes.node_lifecycle.test_zone_timetable import GIVEN_UP, LAST_WORD
from tests.support.objects import replica_set

REPLICASET = "replicaset-controller"
FEW = [spec for spec in BUILT_IN if spec.name in (REPLICASET, "deployment-controller")]


def shown(system: ControllerSystem, collection: str, name: str = "") -> Any:
    return orjson.loads(msgspec.json.encode(system.shown(collection, name)))


def change(
    cluster: SimulatedCluster, system: ControllerSystem, path: str, settings: Mapping[str, object] | None = None
) -> Any:
    """Request a change, and wait until it is visible. Return the new state."""
    *place, action = path.split("/")
    collection, name = [*place, ""][:2]
    requested = system.change(collection, name, action, settings or {})
    assert cluster.run_until(requested.is_done, within=5.0)
    return orjson.loads(msgspec.json.encode(requested.result()))


# Zones.


def test_zones_are_shown_with_their_queues(fleet: Fleet) -> None:
    manager = fleet.manager()
    assert shown(manager, "zones")["zones"] == []
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 17)
    first, second = shown(manager, "zones")["zones"]
    assert (first["name"], first["state"], first["nodes"], first["ready"]) == ("eu:a", "FullDisruption", 6, 0)
    assert (first["qps"], first["usualQps"], first["isSet"], first["released"]) == (0.1, 0.1, False, 2)
    assert (first["waiting"], first["nextNodes"][0], round(first["nextInSeconds"])) == (4, "a2", 3)
    assert (second["state"], second["waiting"], second["nextNodes"]) == ("Normal", 0, [])
    with pytest.raises(LookupError, match='zones "eu:z" not found'):
        manager.shown("zones", "eu:z")


@pytest.mark.parametrize("victim", ["", zone_queue_name("eu:a"), controller_name(NODE_LIFECYCLE)])
def test_rate_of_a_zone_lasts_until_it_is_reset(fleet: Fleet, victim: str) -> None:
    manager = fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 17)
    state = change(fleet.cluster, manager, "zones/eu:a/rate", {"qps": 0})
    assert (state["qps"], state["usualQps"], state["isSet"]) == (0.0, 0.1, True)
    if victim:
        fleet.cluster.world.kill(manager.actors, victim)
    fleet.run_until(GIVEN_UP + 80)
    assert sorted(fleet.tainted()) == ["a0", "a1"]
    assert shown(manager, "zones", "eu:a")["qps"] == 0.0
    assert change(fleet.cluster, manager, "zones/eu:a/rate", {"qps": None})["isSet"] is False
    fleet.run_until(GIVEN_UP + 105)
    assert 4 <= len(fleet.tainted()) <= 5


def test_evictions_of_a_zone_are_paused_and_resumed(fleet: Fleet) -> None:
    manager = fleet.manager()
    fleet.run_until(LAST_WORD)
    fleet.silence("a")
    fleet.run_until(GIVEN_UP + 17)
    assert change(fleet.cluster, manager, "zones/eu:a/pause")["paused"]
    fleet.run_until(GIVEN_UP + 60)
    assert sorted(fleet.tainted()) == ["a0", "a1"]
    assert not change(fleet.cluster, manager, "zones/eu:a/resume")["paused"]
    fleet.run_until(GIVEN_UP + 75)
    assert len(fleet.tainted()) > 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, "qps is missing"),
        ({"qps": "fast"}, "qps is a number from 0 to 1000, or null, not 'fast'"),
        ({"qps": -1}, "not -1"),
        ({"qps": True}, "not True"),
        ({"qps": 1e9}, "not 1000000000.0"),
        ({"qps": 1, "burst": 2}, "unknown settings: burst"),
    ],
)
def test_malformed_rate_is_refused(fleet: Fleet, settings: Mapping[str, object], error: str) -> None:
    manager = fleet.manager()
    fleet.run_until(10)
    with pytest.raises(ValueError, match=error):
        manager.change("zones", "eu:a", "rate", settings)


# Clients.


def test_rate_of_a_client_is_changed_and_reset(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    assert shown(manager, "clients", REPLICASET) == {
        "name": REPLICASET,
        "qps": 20.0,
        "burst": 30,
        "usualQps": 20.0,
        "usualBurst": 30,
        "isSet": False,
        "used": 0.0,
        "waiting": 0,
        "throttled": 0,
    }
    state = change(cluster, manager, f"clients/{REPLICASET}/rate", {"qps": 0.5, "burst": 1})
    assert (state["qps"], state["burst"], state["isSet"]) == (0.5, 1, True)
    cluster.create(REPLICASETS, replica_set("web", replicas=10))
    cluster.run_for(10.0)
    assert 3 <= len(cluster.list(PODS, "default")) <= 6
    state = shown(manager, "clients", REPLICASET)
    assert state["waiting"] > 0
    assert state["throttled"] >= state["waiting"]
    cluster.world.kill(manager.actors, DISPATCHER)
    cluster.run_for(1.0)
    assert shown(manager, "clients", REPLICASET)["qps"] == 0.5
    assert change(cluster, manager, f"clients/{REPLICASET}/rate", {"qps": None})["isSet"] is False
    cluster.run_for(20.0)
    assert len(cluster.list(PODS, "default")) == 10


def test_client_that_renews_the_lease_keeps_its_rate(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=FEW, election=Election(identity="one", namespace="kube-system", name="kcm"))
    cluster.run_for(10.0)
    with pytest.raises(ChangeRefusedError, match="cannot change the rate of kcm: it renews the lease"):
        manager.change("clients", "kcm", "rate", {"qps": 0.1})
    with pytest.raises(LookupError, match='clients "nobody" not found'):
        manager.change("clients", "nobody", "rate", {"qps": 1})
    with pytest.raises(ValueError, match="qps is a number above 0"):
        manager.change("clients", REPLICASET, "rate", {"qps": 0})


# The storm brake.


def pods(cluster: SimulatedCluster) -> int:
    return len(cluster.list(PODS, "default"))


def test_brake_engages_above_its_limit_and_holds_back_deletions_only(
    cluster: SimulatedCluster, logs: LogCapture
) -> None:
    flags = ["--storm-brake-limit=5", "--storm-brake-window=10s"]
    manager = cluster.manager(controllers=FEW, options=read_options(flags))
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set("web", replicas=20))
    cluster.run_for(10.0)
    assert not shown(manager, "brake")["engaged"]
    assert not manager.has_check("storm-brake")
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 0}})
    cluster.run_for(30.0)
    brake = shown(manager, "brake")
    assert (brake["engaged"], brake["reason"]) == (True, "more than 5 deletions and evictions in 10 s")
    assert (pods(cluster), brake["held"], brake["passed"]) == (15, 15, 0)
    trouble = manager.checks()["storm-brake"]()
    assert isinstance(trouble, HealthNotice)
    assert trouble.shown == "engaged"
    assert manager.has_check("storm-brake")
    assert "kcm_storm_brake_engaged 1" in manager.metrics_text()
    assert "kcm_destructive_writes_total 5" in manager.metrics_text()
    assert [entry["log_level"] for entry in logs.entries if entry["event"].startswith("storm brake engaged")] == [
        "warning"
    ]
    cluster.create(REPLICASETS, replica_set("more", replicas=3))
    cluster.run_for(5.0)
    assert pods(cluster) == 18, "creations go on"
    change(cluster, manager, "brake/engage", {"qps": 0.5})
    cluster.run_for(6.0)
    assert 14 <= pods(cluster) <= 16
    assert shown(manager, "brake")["passed"] - (18 - pods(cluster)) in (0, 1), "one may be in flight"
    change(cluster, manager, "brake/release")
    cluster.run_for(20.0)
    assert pods(cluster) == 3, "what was held back does not count"
    cluster.merge(REPLICASETS, "default/more", {"spec": {"replicas": 20}})
    cluster.run_for(20.0)
    cluster.merge(REPLICASETS, "default/more", {"spec": {"replicas": 0}})
    cluster.run_for(20.0)
    assert (pods(cluster), shown(manager, "brake")["engaged"]) == (15, True)


def test_brake_is_off_by_default_and_engages_on_request(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set("web", replicas=20))
    cluster.run_for(10.0)
    assert change(cluster, manager, "brake/engage")["reason"] == "requested by an operator"
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 0}})
    cluster.run_for(30.0)
    assert pods(cluster) == 20
    for victim in (DISPATCHER, controller_name(REPLICASET)):
        cluster.world.kill(manager.actors, victim)
        cluster.run_for(10.0)
        assert (pods(cluster), shown(manager, "brake")["engaged"]) == (20, True)
    assert not manager.change("brake", "", "engage", {}).is_needed
    change(cluster, manager, "brake/release")
    cluster.run_for(30.0)
    assert (pods(cluster), shown(manager, "brake")["held"]) == (0, 0)


def test_standby_changes_no_rate(cluster: SimulatedCluster) -> None:
    for name in ("one", "two"):
        manager = cluster.manager(
            controllers=FEW, election=Election(identity=name, namespace="kube-system", name="kcm")
        )
        cluster.run_for(5.0)
    for collection, action in (("zones", "rate"), ("clients", "rate"), ("brake", "engage")):
        with pytest.raises(ChangeRefusedError, match="the leader is one"):
            manager.change(collection, "any", action, {"qps": 1})


@pytest.mark.parametrize("flag", ["--storm-brake-limit=-1", "--storm-brake-window=0s", "--storm-brake-qps=-1"])
def test_invalid_flags_of_the_brake_are_refused(flag: str) -> None:
    with pytest.raises(InvalidOptionsError, match=flag.partition("=")[0]):
        read_options([flag])
