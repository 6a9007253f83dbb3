"""The census converges to the existing objects of discovered resources, with any faults."""

from __future__ import annotations

import random

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.runtime.simulation.plan import draw_plan
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd
from tests.support.census import CONFIGMAPS, census

SEEDS = range(6)
SECONDS = 70.0  # with changes and faults
PATIENCE = 600.0  # virtual seconds afterwards
ACTORS = (
    "controller:census-controller",
    "discovery",
    "dispatcher",
    "controller-manager",
    "informer:v1/pods",
    "informer:example.com/v1/things",
)
RESOURCES = ("pods", "things", "configmaps")


class Changes:
    """Random creations and deletions of pods, of a custom resource and of its objects. All belong to one owner."""

    def __init__(self, cluster: SimulatedCluster, seed: int) -> None:
        self._cluster, self._chance = cluster, random.Random(seed)
        owner = cluster.create(CONFIGMAPS, {"metadata": {"name": "owner"}})
        self.owner: str = owner["metadata"]["uid"]
        self.pods: list[str] = []
        self.things: list[str] | None = None  # None: there is no such resource
        self._made = 0

    def change(self) -> None:
        match self._chance.choice(("pod", "pod", "no pod", "resource", "thing", "thing")):
            case "pod":
                self.pods.append(self._named("p"))
                self._cluster.create(
                    PODS, self._owned(self.pods[-1], spec={"containers": [{"name": "c", "image": "i"}]})
                )
            case "no pod" if self.pods:
                self._cluster.delete(PODS, f"default/{self.pods.pop()}", grace_seconds=0)
            case "resource" if self.things is None:
                self._cluster.create(CRDS, crd())
                self.things = []
            case "resource":
                self._cluster.delete(CRDS, "things.example.com")
                self.things = None
            case "thing" if self.things is not None:
                self.things.append(self._named("t"))
                self._cluster.create(THINGS, self._owned(self.things[-1]))
        self._cluster.run_for(self._chance.uniform(0.0, 5.0))

    def there(self) -> dict[str, str]:
        """Return the expected counts in the format of the census."""
        counts = {"pods": len(self.pods), "things.example.com": len(self.things or ())}
        return {resource: str(count) for resource, count in counts.items() if count}

    def _named(self, what: str) -> str:
        self._made += 1
        return f"{what}{self._made}"

    def _owned(self, name: str, **parts: Object) -> Object:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": self.owner}
        return {"metadata": {"name": name, "ownerReferences": [reference]}, **parts}


@pytest.mark.parametrize("seed", SEEDS)
def test_census_converges_to_the_existing_objects(seed: int, log: FilteringBoundLogger) -> None:
    faults = draw_plan(seed, seconds=SECONDS, actors=ACTORS, resources=RESOURCES)
    cluster = SimulatedCluster(log=log, seed=seed, faults=faults)
    changes = Changes(cluster, seed)
    cluster.manager(controllers=(census([]),), keep=True)
    while cluster.clock.monotonic() < SECONDS:
        changes.change()

    def counted() -> dict[str, str]:
        written = cluster.get(CONFIGMAPS, f"default/census-{changes.owner}")
        return (written or {}).get("data") or {}

    ended = cluster.run_until(lambda: counted() == changes.there(), within=PATIENCE)
    assert ended, f"{counted()} and not {changes.there()}: {[str(fault) for fault in faults]}"
