"""The console of a simulated cluster."""

from __future__ import annotations

import msgspec
import pytest

from kcm.actors.console.parts import console_parts
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import DEPLOYMENTS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.serving.console.pages import ConsoleParts
from tests.actors.command.journal.test_journal import DEPLOYMENT


@pytest.fixture(scope="module")
def parts() -> ConsoleParts:
    cluster = SimulatedCluster(seed=5, log=quiet_log())
    cluster.hollow_nodes()
    system = cluster.manager()
    cluster.run_for(2)
    cluster.create(DEPLOYMENTS, DEPLOYMENT)
    cluster.run_for(20)
    return console_parts(system)


def rows_of(parts: ConsoleParts, topic: str, **query: str) -> dict[str, object]:
    rows = parts.topics[topic]({name: [value] for name, value in query.items()}).sample()
    decoded: dict[str, object] = msgspec.json.decode(msgspec.json.encode(rows))
    return decoded


def test_every_controller_and_actor_has_a_row(parts: ConsoleParts) -> None:
    rows = rows_of(parts, "system")
    controller, actor = rows["controller/deployment-controller"], rows["actor/controller:deployment-controller"]
    assert isinstance(controller, dict)
    assert isinstance(actor, dict)
    assert (controller["state"], controller["queues"][0]["name"]) == ("Running", "deployment")
    assert controller["reconciled"] > 0
    assert actor["handled"] > 0


def test_rows_change_only_with_the_state(parts: ConsoleParts) -> None:
    assert rows_of(parts, "system") == rows_of(parts, "system")


def test_nodes_are_shown_by_zone(parts: ConsoleParts) -> None:
    rows = rows_of(parts, "zones")
    zones = [row for name, row in rows.items() if name.startswith("zone/")]
    nodes = [row for name, row in rows.items() if name.startswith("node/")]
    assert zones
    assert nodes
    assert all(isinstance(zone, dict) and zone["state"] == "Normal" for zone in zones)
    assert sum(zone["ready"] for zone in zones if isinstance(zone, dict)) == len(nodes)


def test_rates_of_clients_and_the_storm_brake_are_shown(parts: ConsoleParts) -> None:
    rows = rows_of(parts, "rates")
    client, brake = rows["client/deployment-controller"], rows["brake"]
    assert isinstance(client, dict)
    assert isinstance(brake, dict)
    assert (client["qps"], client["burst"], client["isSet"]) == (client["usualQps"], client["usualBurst"], False)
    assert (brake["engaged"], brake["engagedAt"], brake["windowSpan"]) == (False, None, 60.0)
    assert rows_of(parts, "rates") == rows


def test_rollout_and_pods_are_counted(parts: ConsoleParts) -> None:
    rows = rows_of(parts, "pods")
    rollout = rows["rollout/Deployment/default/web"]
    assert isinstance(rollout, dict)
    assert (rollout["wanted"], rollout["done"]) == (3, True)
    points = rows["points/000000000"]
    assert isinstance(points, list)
    assert points[0][1:3] == [3, 3]


def test_story_of_a_pod_contains_the_command_that_created_it(parts: ConsoleParts) -> None:
    story = rows_of(parts, "story", kind="Deployment", namespace="default", name="web")
    graph = story["graph"]
    assert isinstance(graph, dict)
    pod = next(node for node in graph["nodes"] if node["kind"] == "Pod")
    entries = rows_of(parts, "story", **pod).values()
    commands = [entry for entry in entries if isinstance(entry, dict) and entry.get("kind") == "command"]
    created = [entry for entry in commands if entry["title"] == "create pods in default → Done"]
    assert {(entry["who"], entry["cause"]["kind"]) for entry in created} == {("replicaset-controller", "ReplicaSet")}
