"""A system on several clusters: arguments, partitions, Leases, health and metrics, in the simulator."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kcm import main
from kcm.actors.app.arguments import read_options
from kcm.actors.app.cluster_flags import context_of
from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.actors.options import InvalidOptionsError
from kcm.actors.reconciliation import Discovered, Reconciliation, Watch, itself
from kcm.actors.reconciliation.actor_names import controller_name, elector_name
from kcm.actors.reconciliation.commands import create, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue, clusters_of
from kcm.actors.reconciliation.steps import must
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import CONFIGMAPS, EVENTS, LEASES, PODS, Resource
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.metrics.families import CLUSTER_REACHABLE
from kcm.runtime.serving.health import HealthNotice
from kcm.runtime.tables.tables import Tables
from kcm.testing import draw_plan
from tests.support import markers
from tests.support.markers import marker

HUB, EDGE = CONFIGMAPS.on("hub"), CONFIGMAPS.on("edge")


BOTH = (marker(HUB), marker(EDGE))


def world(faults: str = "", **options: Any) -> tuple[SimulatedCluster, ControllerSystem]:
    cluster = SimulatedCluster(clusters=("hub", "edge"), faults=parse_faults(faults))
    return cluster, cluster.manager(controllers=BOTH, **options)


def add(cluster: SimulatedCluster, resource: Resource, name: str) -> None:
    cluster.create(resource, {"metadata": {"name": name}})


def is_marked(cluster: SimulatedCluster, resource: Resource, name: str) -> bool:
    return markers.is_marked(cluster.get(resource, f"default/{name}"))


def election(identity: str = "a") -> dict[str, Election]:
    return dict.fromkeys(("hub", "edge"), Election(identity=identity, namespace="default", name="marker"))


def test_each_controller_writes_to_its_cluster() -> None:
    cluster, _ = world()
    add(cluster, HUB, "one")
    add(cluster, EDGE, "two")
    cluster.run_for(5)
    assert is_marked(cluster, HUB, "one")
    assert is_marked(cluster, EDGE, "two")
    assert [cluster.get(HUB, "default/two"), cluster.get(EDGE, "default/one")] == [None, None]
    events = {name: cluster.list(EVENTS.on(name), "default") for name in ("hub", "edge")}
    involved = {name: [event["involvedObject"]["name"] for event in found] for name, found in events.items()}
    assert involved == {"hub": ["one"], "edge": ["two"]}


@pytest.mark.parametrize("fault", ["partition", "server-away"])
@pytest.mark.parametrize("dead", ["hub", "edge"])
def test_dead_cluster_does_not_block_the_controllers_of_the_other(dead: str, fault: str) -> None:
    alive, there, gone = ("edge", EDGE, HUB) if dead == "hub" else ("hub", HUB, EDGE)
    cluster, system = world(f"{fault} 0..200 cluster={dead}", election=election())
    cluster.run_for(30)  # the dead cluster has never responded
    add(cluster, there, "one")
    add(cluster, gone, "two")
    cluster.run_for(100)
    assert is_marked(cluster, there, "one")
    assert not is_marked(cluster, gone, "two")
    health = {name: check() for name, check in system.checks().items()}
    assert health[f"cluster-{alive}"] is None
    assert health[f"marker-{alive}"] is None
    assert isinstance(health[f"cluster-{dead}"], HealthNotice)
    failures = {name for name, why in health.items() if why is not None and not isinstance(why, HealthNotice)}
    assert failures == set()  # no liveness probe restarts the process
    cluster.run_for(150)
    assert is_marked(cluster, gone, "two")
    assert {name: check() for name, check in system.checks().items() if check() is not None} == {}


def test_metric_of_a_cluster_shows_an_outage() -> None:
    cluster, system = world("server-away 10..60 cluster=edge")
    cluster.run_for(30)
    assert reachable(system) == {"hub": "1", "edge": "0"}
    cluster.run_for(60)
    assert reachable(system) == {"hub": "1", "edge": "1"}


def reachable(system: ControllerSystem) -> dict[str, str]:
    """Return the values of the gauge by cluster."""
    found = re.findall(rf'{CLUSTER_REACHABLE.name}{{cluster="(\w+)"}} (\d)', system.metrics_text())
    return dict(found)


def test_series_of_informers_and_rate_limits_differ_by_cluster() -> None:
    cluster = SimulatedCluster(clusters=("hub", "edge"))
    system = cluster.manager(controllers=(marker(HUB, None), marker(EDGE, None)))
    cluster.run_for(5)
    text = system.metrics_text()
    assert all(f'name="kube-controller-manager/{name}"' in text for name in ("hub", "edge"))
    assert all(f'marker_hub_rate_limiter_use{{cluster="{name}"}}' in text for name in ("hub", "edge"))


def test_dead_cluster_delays_no_request_of_a_controller_to_the_other() -> None:
    class Fanout:
        def __init__(self, tables: Tables) -> None:
            self._hub = tables[HUB]

        def reconcile(self, key: Key) -> Reconciliation:
            configmap = self._hub.get(key)
            if configmap is not None and key != "default/kube-root-ca.crt":
                target = EDGE if key.endswith("edge") else HUB
                name = f"{key.partition('/')[2]}-copy"
                yield from must(create(target, {"metadata": {"name": name, "namespace": "default"}}))

    spec = ControllerSpec(
        name="fanout",
        queues=(Queue(watches=(Watch(HUB, to=itself, labels="fan=out"),), concurrency=10),),
        build=lambda context: Fanout(context.tables),
        qps=2.0,
        burst=1,
    )
    cluster = SimulatedCluster(clusters=("hub", "edge"), faults=parse_faults("partition 0.. cluster=edge"))
    cluster.manager(controllers=(spec,))
    for number in range(3):
        for target in ("edge", "hub"):
            labels = {"fan": "out"}
            cluster.create(HUB, {"metadata": {"name": f"n{number}-{target}", "labels": labels}})
    cluster.run_for(3)
    assert [cluster.get(HUB, f"default/n{number}-hub-copy") is not None for number in range(3)] == [True] * 3


# Leases.


def holder(cluster: SimulatedCluster, name: str) -> str:
    lease = cluster.get(LEASES.on(name), "default/marker")
    return "" if lease is None else str(lease["spec"]["holderIdentity"])


def test_controllers_run_under_the_lease_of_their_home_cluster() -> None:
    cluster, system = world(election=election())
    cluster.run_for(5)
    assert [holder(cluster, name) for name in ("hub", "edge")] == ["a", "a"]
    cluster.merge(LEASES.on("edge"), "default/marker", {"spec": {"holderIdentity": "thief", "renewTime": None}})
    cluster.run_for(5)
    add(cluster, HUB, "one")
    add(cluster, EDGE, "two")
    cluster.run_for(5)
    assert is_marked(cluster, HUB, "one")
    assert not is_marked(cluster, EDGE, "two")
    assert system.actors.is_alive(controller_name("marker-hub"))
    assert not system.actors.is_alive(controller_name("marker-edge"))
    assert system.end is None  # it stands by for the Lease of edge
    cluster.run_for(60)
    assert is_marked(cluster, EDGE, "two")


def test_another_manager_takes_over_the_controllers_of_a_cluster_that_it_alone_reaches() -> None:
    cluster = SimulatedCluster(
        clusters=("hub", "edge"), faults=parse_faults("partition 10..100 process=manager cluster=edge")
    )
    for identity in ("a", "b"):
        cluster.manager(controllers=BOTH, election=election(identity))
        cluster.run_for(2)
    assert [holder(cluster, name) for name in ("hub", "edge")] == ["a", "a"]
    cluster.run_for(60)
    assert [holder(cluster, name) for name in ("hub", "edge")] == ["a", "b"]
    add(cluster, HUB, "one")
    add(cluster, EDGE, "two")
    cluster.run_for(5)
    assert is_marked(cluster, HUB, "one")
    assert is_marked(cluster, EDGE, "two")


def test_leases_of_all_clusters_are_released_at_the_end() -> None:
    cluster, system = world(election=election())
    cluster.run_for(5)
    assert cluster.stop(system)
    assert [holder(cluster, name) for name in ("hub", "edge")] == ["", ""]


def test_electors_are_named_by_cluster() -> None:
    cluster, system = world(election=election())
    cluster.run_for(1)
    names = system.actors.names()
    assert {elector_name("hub"), elector_name("edge")} <= set(names)
    assert "informer:edge:v1/configmaps?namespace=default" in names


# Flags of kcm.main, and arguments.


def test_contexts_have_the_names_of_the_clusters_unless_a_flag_names_others() -> None:
    options = read_options(["--kubeconfig=k", "--cluster-contexts=edge=factory"], controllers=BOTH)
    assert clusters_of(BOTH) == ("hub", "edge")
    assert [context_of(cluster, options) for cluster in ("hub", "edge")] == ["hub", "factory"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "--kubeconfig is required, with a context for each of the clusters hub, edge"),
        (["--kubeconfig=k", "--master=http://h"], "--master names one server"),
        (["--kubeconfig=k", "--cluster-contexts=moon=x"], "--cluster-contexts names the unknown cluster 'moon'"),
        (["--kubeconfig=k", "--fault-plan=f"], "--fault-plan needs a program with one cluster"),
    ],
)
def test_flags_that_do_not_fit_several_clusters_are_refused(flags: list[str], text: str) -> None:
    with pytest.raises(InvalidOptionsError, match=re.escape(text)):
        read_options(flags, controllers=BOTH)


def test_flag_of_contexts_is_unknown_to_a_program_with_one_cluster() -> None:
    with pytest.raises(FlagError, match="cluster-contexts"):
        read_options(["--cluster-contexts=edge=factory"], controllers=())


def test_main_refuses_controllers_that_name_no_cluster_beside_others() -> None:
    with pytest.raises(ValueError, match="marker- reads configmaps on no cluster: name one of hub, edge"):
        main((*BOTH, marker(CONFIGMAPS)), name="mixed", argv=[])


def test_main_needs_a_context_for_each_cluster(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "config"
    user = {"name": "u", "user": {"token": "t"}}
    context = {"name": "hub", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    kubeconfig.write_text(json.dumps({"contexts": [context], "clusters": [cluster], "users": [user]}))
    code = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"--kubeconfig={kubeconfig}", "--secure-port=0"], check=False, timeout=60
    ).returncode
    assert code == 1
    assert "the context to use: no 'edge' in contexts; there is: hub" in capfd.readouterr().err


PROGRAM = """
import sys
from kcm import main
from kcm.protocols.resources import CONFIGMAPS
from tests.support.markers import marker
sys.exit(main((marker(CONFIGMAPS.on("hub")), marker(CONFIGMAPS.on("edge"))), name="markers"))
"""


class Silent:
    def send(self, *_: object, **__: object) -> None: ...

    def watch(self, *_: object, **__: object) -> None: ...


def refused(**arguments: Any) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        ControllerSystem(**arguments)
    return str(caught.value)


TWO = {"hub": Silent(), "edge": Silent()}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"transport": Silent(), "transports": TWO}, "not both"),
        ({"transports": {}}, "transports are empty"),
        ({"transports": {"hub": object()}}, r"transports['hub'] takes a Transport"),
        ({"transports": {"Hub": Silent()}}, "name of a cluster: at most 63 lower case letters"),
        (
            {"transport": Silent(), "controllers": BOTH},
            "controllers name the clusters hub, edge: pass transports={'hub': …}",
        ),
        ({"transports": {"hub": Silent()}, "controllers": BOTH}, "marker-edge reads configmaps on the unknown cluster"),
        (
            {"transports": TWO, "controllers": (marker(CONFIGMAPS),)},
            "reads configmaps on no cluster: name one of hub, edge by .on(cluster)",
        ),
        ({"transports": TWO, "controllers": BOTH, "election": election()["hub"]}, "election takes a map by cluster"),
        (
            {"transports": TWO, "controllers": BOTH, "election": {"hub": election()["hub"]}},
            "marker-edge is at home in edge, which has no election",
        ),
        (
            {"transports": TWO, "controllers": BOTH, "election": {"moon": election()["hub"]}},
            "election names the unknown cluster 'moon'",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], text: str) -> None:
    assert text in refused(**arguments)


def test_discovered_resources_need_one_cluster() -> None:
    discovers = Discovered(select=lambda _served: True, to=lambda _resource, change, _tables: (change.key,))
    spec = ControllerSpec(
        name="d", queues=(Queue(watches=(Watch(HUB, to=itself),)),), discovers=discovers, build=lambda _context: None
    )
    assert "d has discovered resources, which a system with several clusters" in refused(
        transports=TWO, controllers=(spec,)
    )


@pytest.mark.parametrize(
    ("target", "text"), [(CONFIGMAPS, "none of the clusters edge, hub"), (PODS.on("moon"), "moon")]
)
def test_command_for_an_unknown_cluster_fails_with_its_path(target: Resource, text: str) -> None:
    errors: list[str] = []

    class Lost:
        def reconcile(self, key: Key) -> Reconciliation:
            outcome = yield patch(target, key, {"data": {}})
            errors.append(str(outcome))

    spec = ControllerSpec(name="lost", queues=(Queue(watches=(Watch(HUB, to=itself),)),), build=lambda _context: Lost())
    cluster = SimulatedCluster(clusters=("hub", "edge"))
    cluster.manager(controllers=(spec,))
    add(cluster, HUB, "one")
    cluster.run_for(5)
    assert errors
    assert text in errors[0]


def test_world_names_the_cluster_that_it_lacks() -> None:
    cluster = SimulatedCluster(clusters=("hub", "edge"))
    with pytest.raises(ValueError, match=r"no cluster '': name one by RESOURCE.on\(cluster\); there is hub, edge"):
        cluster.list(CONFIGMAPS)
    with pytest.raises(ValueError, match="there is only one, without a name"):
        SimulatedCluster().list(HUB)


def test_drawn_faults_name_clusters_only_if_there_are_some() -> None:
    plain = [draw_plan(seed, seconds=40.0, actors=("a",)) for seed in range(50)]
    named = [draw_plan(seed, seconds=40.0, actors=("a",), clusters=("hub", "edge")) for seed in range(50)]
    assert {fault.cluster for plan in plain for fault in plan} == {"*"}
    assert {fault.cluster for plan in named for fault in plan} == {"*", "hub", "edge"}
    assert [[fault.kind for fault in plan] for plan in named] == [[fault.kind for fault in plan] for plan in plain]
