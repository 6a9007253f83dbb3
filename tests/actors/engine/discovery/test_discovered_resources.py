"""Resources are added, fail and are removed while a controller counts all objects by owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.codec import decode
from kcm.protocols.messages.discovery import DiscoveryAnswer
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, REPLICASETS, Resource
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.support.census import CONFIGMAPS, UNOWNED, Census, census

CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)
THINGS = Resource(group="example.com", version="v1", plural="things", kind="Thing")
OWNER = "11111111-2222-3333-4444-555555555555"
SEEN_WITHIN = 15.0  # seconds after the creation of a CRD


def crd(plural: str = "things", kind: str = "Thing") -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


def owned(name: str, **parts: Any) -> Object:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": OWNER}
    return {"metadata": {"name": name, "ownerReferences": [reference]}, **parts}


def pod(name: str, make: Callable[..., Object] = owned) -> Object:
    return make(name, spec={"containers": [{"name": "c", "image": "i"}]})


class Scene:
    """Cluster with the census controller and its counts."""

    def __init__(self, log: FilteringBoundLogger, *faults: Fault, metadata_only: bool = True) -> None:
        self.built: list[Census] = []
        self.cluster = SimulatedCluster(log=log, faults=faults)
        # The owner must exist, because the embedded server collects dependents of missing owners.
        self.cluster.create(CONFIGMAPS, {"metadata": {"name": "owner"}})
        self.spec = census(self.built, metadata_only=metadata_only)
        self.system = self.cluster.manager(controllers=(self.spec,))
        self.owner = self.cluster.get(CONFIGMAPS, "default/owner")

    def create(self, resource: Resource, obj: Object) -> None:
        for reference in obj["metadata"].get("ownerReferences", ()):
            assert self.owner is not None
            reference["uid"] = self.owner["metadata"]["uid"]
        self.cluster.create(resource, obj)

    def counts(self, owner: str | None = None) -> dict[str, int]:
        """Return the written counts by resource."""
        assert self.owner is not None
        written = self.cluster.get(CONFIGMAPS, f"default/census-{owner or self.owner['metadata']['uid']}")
        return {name: int(count) for name, count in ((written or {}).get("data") or {}).items()}

    def until_counted(self, *, within: float = SEEN_WITHIN, owner: str | None = None, **counts: int) -> None:
        expected = {name.replace("_", "."): count for name, count in counts.items()}
        reached = self.cluster.run_until(lambda: self.counts(owner) == expected, within=within)
        assert reached, f"{self.counts(owner)} and not {expected}"

    def discovery(self) -> str | None:
        return self.system.checks()["discovery"]()


@pytest.fixture
def scene(log: FilteringBoundLogger) -> Scene:
    return Scene(log)


def test_whatever_is_served_is_counted(scene: Scene) -> None:
    scene.create(PODS, pod("a"))
    scene.create(PODS, pod("b"))
    scene.until_counted(pods=2)
    assert scene.system.tables[PODS.id].metadata_only
    assert b'"spec"' not in scene.system.tables[PODS.id].entries()[0].raw


def test_added_resource_is_counted_and_removed_one_is_not(scene: Scene) -> None:
    scene.create(PODS, pod("a"))
    scene.until_counted(pods=1)
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.create(THINGS, owned("two"))
    scene.until_counted(pods=1, things_example_com=2)
    scene.cluster.delete(CRDS, "things.example.com")
    scene.until_counted(pods=1)
    scene.cluster.run_for(SEEN_WITHIN)
    assert THINGS.id not in scene.system.tables
    assert not scene.system.actors.is_alive(f"informer:{THINGS.id}")
    scene.create(PODS, pod("b"))
    scene.until_counted(pods=2)
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("three"))
    scene.until_counted(pods=2, things_example_com=1)


def test_bodies_of_unchanged_documents_are_not_sent_again(scene: Scene) -> None:
    scene.create(PODS, pod("a"))
    scene.until_counted(pods=1)
    answers: list[DiscoveryAnswer] = []

    def record(_sender: str, to: str, frame: bytes) -> None:
        if to == "discovery" and isinstance(answer := decode(frame), DiscoveryAnswer):
            answers.append(answer)

    scene.system.actors.taps.append(record)
    scene.cluster.run_for(60.0)
    assert len(answers) >= 10
    assert all(answer.unchanged and not answer.body for answer in answers)
    answers.clear()
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.until_counted(pods=1, things_example_com=1)
    assert [answer.path for answer in answers if not answer.unchanged] == ["/apis"]
    assert b"things" in next(answer.body for answer in answers if not answer.unchanged)


def test_unlistable_resource_stalls_only_its_table_and_is_reported(log: FilteringBoundLogger) -> None:
    broken = Fault(
        kind=FaultKind.COMMAND_ANSWERED, start=60.0, until=300.0, resource="things", process="manager", status=500
    )
    scene = Scene(log, broken)
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.until_counted(things_example_com=1, within=30.0)
    scene.cluster.run_for(61.0 - scene.cluster.clock.monotonic())
    scene.cluster.network.break_streams()
    scene.create(THINGS, owned("two"))
    scene.create(PODS, pod("a"))
    scene.until_counted(things_example_com=1, pods=1)
    assert scene.discovery() is None, "for a while, a silence is no trouble"
    scene.cluster.run_for(200.0)
    assert scene.discovery() is not None
    assert "the table of things.example.com has not heard from the server" in str(scene.discovery())
    assert scene.system.checks()["census-controller"]() is None
    assert scene.system.checks()["infrastructure"]() is None
    scene.until_counted(things_example_com=2, pods=1, within=150.0)
    assert scene.discovery() is None


def test_unlistable_resource_does_not_block_others(log: FilteringBoundLogger) -> None:
    broken = Fault(
        kind=FaultKind.COMMAND_ANSWERED, start=0.0, until=150.0, resource="things", process="manager", status=503
    )
    scene = Scene(log, broken)
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.create(PODS, pod("a"))
    scene.until_counted(pods=1)
    scene.cluster.run_for(90.0)
    assert str(scene.discovery()).startswith("the table of things.example.com is not synced: watch answered 503")
    assert scene.system.checks()["census-controller"]() is None
    scene.until_counted(pods=1, things_example_com=1, within=120.0)
    assert scene.discovery() is None


def test_whole_and_metadata_only_share_the_whole_table(log: FilteringBoundLogger) -> None:
    scene = Scene(log)
    scene.system.halt()
    whole = census([], name="whole-controller", metadata_only=False)
    system = scene.cluster.manager(controllers=(scene.spec, whole))
    scene.create(PODS, pod("a"))
    scene.until_counted(pods=1)
    assert not system.tables[PODS.id].metadata_only
    assert system.tables[PODS.id].entries()[0].facts is not None
    system.disable("whole-controller")
    assert scene.cluster.run_until(lambda: PODS.id in system.tables and system.tables[PODS.id].metadata_only)
    scene.create(PODS, pod("b"))
    scene.until_counted(pods=2)


def test_a_table_that_a_spec_names_is_shared(log: FilteringBoundLogger, cluster: SimulatedCluster) -> None:
    from kcm.actors.controllers.built_in import BUILT_IN

    built: list[Census] = []
    system = cluster.manager(controllers=(*BUILT_IN, census(built)))
    cluster.create(PODS, pod("alone", lambda name, **parts: {"metadata": {"name": name}, **parts}))
    assert cluster.run_until(lambda: built[-1].counts.get(UNOWNED, {}).get("pods") == 1 if built else False)
    assert not system.tables[PODS.id].metadata_only
    assert not system.tables[REPLICASETS.id].metadata_only


@pytest.mark.parametrize(
    "victim", ["census-controller", "discovery", "informer:v1/pods", "informer:example.com/v1/things"]
)
def test_census_continues_after_the_failure_of_any_actor(scene: Scene, victim: str) -> None:
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.until_counted(things_example_com=1)
    scene.system.restart(victim)
    scene.cluster.run_for(5.0)
    scene.create(THINGS, owned("two"))
    scene.create(PODS, pod("a"))
    scene.until_counted(things_example_com=2, pods=1)


def test_a_manager_that_is_restarted_finds_what_was_discovered(scene: Scene) -> None:
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.until_counted(things_example_com=1)
    scene.cluster.world.kill(scene.system.actors, "controller-manager")
    scene.cluster.run_for(10.0)
    incarnation = scene.system.actors.incarnation(f"informer:{THINGS.id}")
    scene.create(THINGS, owned("two"))
    scene.create(CRDS, crd("gadgets", "Gadget"))
    scene.create(Resource(group="example.com", version="v1", plural="gadgets", kind="Gadget"), owned("g"))
    scene.until_counted(things_example_com=2, gadgets_example_com=1)
    assert scene.system.actors.incarnation(f"informer:{THINGS.id}") == incarnation


def test_informer_lost_with_the_manager_is_restarted(scene: Scene) -> None:
    scene.create(CRDS, crd())
    scene.create(THINGS, owned("one"))
    scene.until_counted(things_example_com=1)
    scene.cluster.world.kill(scene.system.actors, f"informer:{THINGS.id}")
    scene.cluster.world.kill(scene.system.actors, "controller-manager")
    scene.cluster.run_for(10.0)
    scene.create(THINGS, owned("two"))
    scene.until_counted(things_example_com=2)


def test_disabled_controller_needs_no_discovery(scene: Scene) -> None:
    scene.create(PODS, pod("a"))
    scene.until_counted(pods=1)
    scene.system.disable("census-controller")
    scene.cluster.run_for(1.0)
    assert PODS.id not in scene.system.tables
    assert not scene.system.actors.is_alive("discovery")
    scene.system.enable("census-controller")
    scene.create(PODS, pod("b"))
    scene.until_counted(pods=2)


def logged(logs: LogCapture) -> list[tuple[str, str]]:
    """Return level and group of the lines about groups that are not discovered, or discovered again."""
    about = [entry for entry in logs.entries if entry["event"].startswith("API group ")]
    return [(entry["log_level"], entry["group"]) for entry in about]


@pytest.mark.parametrize(
    "kind, arguments, levels",
    [
        (FaultKind.SERVER_AWAY, {}, {"debug"}),
        (FaultKind.PARTITION, {"process": "manager"}, {"debug"}),
        (FaultKind.COMMAND_ANSWERED, {"process": "manager", "status": 500}, {"warning", "info"}),
    ],
)
def test_discovery_does_not_log_outages_of_the_server(
    log: FilteringBoundLogger, logs: LogCapture, kind: FaultKind, arguments: dict[str, Any], levels: set[str]
) -> None:
    scene = Scene(log, Fault(kind=kind, start=30.0, until=75.0, **arguments))
    scene.cluster.run_for(150.0)
    assert {level for level, _ in logged(logs)} == levels
    assert {group for _, group in logged(logs)} == {"/api", "/apis"}
