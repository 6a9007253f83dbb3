"""Selective controllers see exactly the objects that they select, with any faults and beside any other controllers."""

from __future__ import annotations

import random

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import labels_of, namespace_of
from kcm.protocols.resources import NAMESPACES as NAMESPACE_RESOURCE
from kcm.runtime.simulation.plan import draw_plan
from tests.support.mirror import CONFIGMAPS, LABEL, MIRROR, NAMESPACES, OF, SECRETS, SHOP, WHOLE, mirror

SECONDS = 60.0  # with changes and faults
PATIENCE = 600.0  # virtual seconds afterwards
BESIDE: dict[str, tuple[ControllerSpec, ...]] = {"alone": (), "a whole one": (WHOLE,), "one of a namespace": (SHOP,)}
EVERYWHERE = (*NAMESPACES, "default")


def table_ids(specs: tuple[ControllerSpec, ...], log: FilteringBoundLogger) -> list[str]:
    return list(SimulatedCluster(log=log).manager(controllers=specs).tables)


def selected(cluster: SimulatedCluster) -> set[str]:
    return {
        f"{namespace_of(configmap)}/{configmap['metadata']['name']}"
        for namespace in NAMESPACES
        for configmap in cluster.list(CONFIGMAPS, namespace)
        if labels_of(configmap).get("app") == "web"
    }


def mirrored(cluster: SimulatedCluster) -> list[str]:
    secrets = [secret for namespace in EVERYWHERE for secret in cluster.list(SECRETS, namespace)]
    return sorted(secret["metadata"]["annotations"][OF] for secret in secrets if LABEL in labels_of(secret))


def change(cluster: SimulatedCluster, chance: random.Random, there: dict[str, str]) -> None:
    """Create, delete or relabel a ConfigMap. there: labels by key."""
    key = f"{chance.choice(EVERYWHERE)}/{chance.choice('abcd')}"
    namespace, name = key.split("/")
    if key not in there:
        there[key] = chance.choice(("web", "web", "db"))
        meta = {"name": name, "namespace": namespace, "labels": {"app": there[key]}}
        cluster.create(CONFIGMAPS, {"metadata": meta})
    elif chance.random() < 0.3:
        del there[key]
        cluster.delete(CONFIGMAPS, key)
    elif chance.random() < 0.7:
        there[key] = "db" if there[key] == "web" else "web"
        cluster.merge(CONFIGMAPS, key, {"metadata": {"labels": {"app": there[key]}}})
    else:
        cluster.merge(CONFIGMAPS, key, {"data": {"x": str(chance.random())}})


def prepared(cluster: SimulatedCluster) -> None:
    for namespace in NAMESPACES:
        cluster.create(NAMESPACE_RESOURCE, {"metadata": {"name": namespace}})


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("seed", range(4))
def test_each_that_is_selected_has_its_mirror_in_the_end(seed: int, beside: str, log: FilteringBoundLogger) -> None:
    specs = (mirror(), *BESIDE[beside])
    actors = (
        f"controller:{MIRROR}",
        "dispatcher",
        "controller-manager",
        *(f"informer:{table_id}" for table_id in table_ids(specs, log)),
    )
    faults = draw_plan(seed, seconds=SECONDS, actors=actors, resources=("configmaps", "secrets"))
    cluster = SimulatedCluster(log=log, seed=seed, faults=faults)
    prepared(cluster)
    cluster.manager(controllers=specs, keep=True)
    chance, there = random.Random(seed), dict[str, str]()
    while cluster.clock.monotonic() < SECONDS:
        change(cluster, chance, there)
        cluster.run_for(chance.uniform(0.0, 4.0))
    assert cluster.run_until(lambda: mirrored(cluster) == sorted(selected(cluster)), within=PATIENCE), faults
    cluster.run_for(30.0)
    assert mirrored(cluster) == sorted(selected(cluster))


def test_controller_receives_the_same_changes_beside_any_other(log: FilteringBoundLogger) -> None:
    seen_by_name: dict[str, list[tuple[str, str]]] = {}
    for name, beside in BESIDE.items():
        seen = seen_by_name[name] = list[tuple[str, str]]()
        cluster = SimulatedCluster(log=log, seed=3)
        prepared(cluster)
        cluster.manager(controllers=(mirror(seen), *beside))
        cluster.run_for(2.0)
        chance, there = random.Random(3), dict[str, str]()
        for _ in range(60):
            change(cluster, chance, there)
            cluster.run_for(1.0)
    assert seen_by_name["alone"] == seen_by_name["a whole one"] == seen_by_name["one of a namespace"]
    assert {type for type, _ in seen_by_name["alone"]} == {"ADDED", "MODIFIED", "DELETED"}
    there_now = set[str]()
    for type, key in seen_by_name["alone"]:
        assert (key in there_now) == (type != "ADDED"), "each comes once, before it changes and goes"
        (there_now.discard if type == "DELETED" else there_now.add)(key)


def test_narrower_selection_shares_the_wider_table(log: FilteringBoundLogger) -> None:
    assert table_ids((mirror(), WHOLE), log) == ["v1/configmaps", "v1/secrets"]
    assert table_ids((mirror(), SHOP), log) == [
        "v1/configmaps?namespace=blog&labels=app=web",
        "v1/configmaps?namespace=shop",
        "v1/secrets?metadata",
    ]
