"""The backup operator on virtual time, under faults, and on a running API server with its service over HTTP.

python -m pytest examples/test_backup.py, or for more seeds, in examples/:
python -m kcm.simulate --setting test_backup:SETTING --seeds 1000
"""

import functools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backup_operator import BACKUPS, ENDED, STORED, backup_spec
from backup_service import BackupClient, MemoryService, http_server
from kubernetes import client, config
from test_website import CRDS, manifest

from kcm import ControllerSystem, Object, api_transport
from kcm.objects import decode_object, is_deleting
from kcm.testing import (
    Action,
    Committed,
    Fail,
    Fleet,
    Observation,
    Scenario,
    Setting,
    SimulatedCluster,
    Trial,
    draw_plan,
    must_hold,
)

SOURCES = ("orders", "orders-archive", "broken-disk")

# User actions. A user of a reduced scenario may change a backup that was never created.


def create(at: float, name: str, source: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(BACKUPS, f"default/{name}")
        if there is None:
            cluster.create(BACKUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"source": source}})
        return there is None or not is_deleting(there)  # retried until its predecessor is deleted

    return Action(at, f"backup {name} of {source} is created", do)


def delete(at: float, name: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(BACKUPS, f"default/{name}") is not None:
            cluster.delete(BACKUPS, f"default/{name}")
        return True

    return Action(at, f"backup {name} is deleted", do)


def clear_status(at: float, name: str) -> Action:
    """Remove the status, as a restore of objects from a backup of the cluster does."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(BACKUPS, f"default/{name}") is not None:
            cluster.merge(BACKUPS, f"default/{name}", {"status": None}, subresource="status")
        return True

    return Action(at, f"the status of backup {name} is lost", do)


def life_of(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    yield from scenario.life(
        chance,
        make=lambda at: iter([create(at, name, chance.choice(SOURCES))]),
        changes=[lambda at: iter([clear_status(at, name)])],
        remove=lambda at: iter([delete(at, name)]),
        most=5,
    )


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("backups")
    for name in ("monday", "tuesday")[: chance.randint(1, 2)]:
        yield from life_of(name, scenario, chance)


# Expected end state, and what must hold at every moment.


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    stored = cluster.outside.stored()
    for backup in cluster.shown(BACKUPS):
        name, uid, status = backup["metadata"]["name"], backup["metadata"]["uid"], backup.get("status", {})
        copy = stored.pop(uid, None)
        if is_deleting(backup):
            yield f"{name} is still being deleted, and the service has {copy or 'no copy of it'}"
        elif copy is None:
            yield f"the service has no copy of {name}"
        elif copy.source != backup["spec"]["source"]:
            yield f"the copy of {name} is of {copy.source}, not of {backup['spec']['source']}"
        elif status.get("phase") != expected_phase(backup):
            yield f"{name} is {status.get('phase')}, not {expected_phase(backup)}"
    for number, copy in stored.items():
        yield f"the service has copy {number} of {copy.source}, which no Backup has"


def expected_phase(backup: Object) -> str:
    return "Failed" if "broken" in backup["spec"]["source"] else "Done"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    backups = cluster.list(BACKUPS)
    return {
        "backups": {backup["metadata"]["name"]: (backup["spec"], backup.get("status")) for backup in backups},
        "copies": sorted(copy.source for copy in cluster.outside.stored().values()),
    }


class CopiesOfBackups:
    """A Backup has its finalizer before its copy, one copy, and is deleted after its copy; an ended phase remains."""

    name = "one copy, for as long as there is a Backup"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._known: set[str] = set()

    def observe(self, observation: Observation, fail: Fail) -> None:
        stored = self._cluster.outside.stored()
        backups = {backup["metadata"]["uid"]: backup for backup in self._cluster.list(BACKUPS)}
        for number in stored.keys() - self._known:
            self._known.add(number)
            if STORED not in backups.get(number, {}).get("metadata", {}).get("finalizers", []):
                fail(
                    f"copy {number} of {stored[number].source} is started, but no Backup with this uid has a finalizer"
                )
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage != "backups.example.com":
                    continue
                backup = decode_object(change.raw)
                uid, name = backup["metadata"]["uid"], backup["metadata"]["name"]
                if change.type == "DELETED" and uid in stored:
                    fail(f"{name} is deleted before its copy {uid}")
                if backup.get("status", {}).get("phase") == "Done" and "broken" in backup["spec"]["source"]:
                    fail(f"{name} is Done, but {backup['spec']['source']} cannot be copied")


TRIAL = Trial(
    controller="backup-controller",
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, _options: (CopiesOfBackups(cluster),),
)

SETTING = Setting(
    name="test_backup:SETTING",
    outside=lambda environment: MemoryService(now=environment.clock.monotonic, takes=3.0),
    controllers=lambda service: (backup_spec(service),),
    trials=(TRIAL,),
    prepare=lambda cluster: cluster.create(CRDS, manifest("backup-crd.yml")),
    fleet=lambda _scenario: Fleet(nodes=0),
    draw=functools.partial(draw_plan, resources=("*", "backups")),
)


@pytest.mark.parametrize("seed", range(4))
def test_copies_match_the_backups_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


def test_copy_is_made_and_deleted_over_http(kubeconfig: Path) -> None:
    service = MemoryService()
    server = http_server(service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        with config.new_client_from_config(str(kubeconfig)) as api:
            client.ApiextensionsV1Api(api).create_custom_resource_definition(manifest("backup-crd.yml"))
            where = ("example.com", "v1", "default", "backups")
            backups: Any = client.CustomObjectsApi(api)
            spec = backup_spec(BackupClient(url))
            with api_transport(kubeconfig) as transport, ControllerSystem(transport=transport, controllers=(spec,)):
                backups.create_namespaced_custom_object(*where, manifest("backup.yml"))
                uid = backups.get_namespaced_custom_object(*where, "monday")["metadata"]["uid"]

                def phase() -> Any:
                    return backups.get_namespaced_custom_object(*where, "monday").get("status", {}).get("phase")

                until(lambda: phase() in ENDED)
                assert phase() == "Done"
                assert service.stored()[uid].source == "orders"
                backups.delete_namespaced_custom_object(*where, "monday")
                until(lambda: not backups.list_namespaced_custom_object(*where)["items"])
                assert service.stored() == {}
    finally:
        server.shutdown()
        server.server_close()


def until(holds: Any, within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
