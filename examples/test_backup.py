"""The backup operator on virtual time, under faults, and on a running API server with its service over HTTP.

python -m pytest examples/test_backup.py, or for more seeds, in examples/:
python -m kcm.simulate --setting test_backup:SETTING --seeds 1000
"""

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from backup_operator import BACKUPS, STORED, backup_spec
from backup_service import BackupClient, MemoryService
from kopf_runs import kopf_running, registry_of, with_rights
from kubernetes import client, config
from remote_checks import OneForEach, change, create, define, lose_status, serving, until
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

KOPF = registry_of("backup_operator_kopf")
SOURCES = ("orders", "orders-archive", "broken-disk")

# User actions.


def life_of(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    yield from scenario.life(
        chance,
        make=lambda at: iter([create(at, BACKUPS, name, {"source": chance.choice(SOURCES)})]),
        changes=[lambda at: iter([lose_status(at, BACKUPS, name)])],
        remove=lambda at: iter([change(at, BACKUPS, name, None)]),
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


class BrokenIsNotDone:
    """A Backup of a volume that cannot be copied is never Done."""

    name = "a broken volume is not backed up"

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for committed in observation.changes:
                if committed.storage == BACKUPS.name:
                    backup = decode_object(committed.raw)
                    source, phase = backup["spec"]["source"], backup.get("status", {}).get("phase")
                    if phase == "Done" and "broken" in source:
                        fail(f"{backup['metadata']['name']} is Done, but {source} cannot be copied")


TRIAL = Trial(
    controller="backup-controller",
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, _options: (OneForEach(cluster, BACKUPS, STORED, "copy"), BrokenIsNotDone()),
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


# Over HTTP, on a running API server.


@contextmanager
def with_kcm(kubeconfig: Path, service: BackupClient) -> Iterator[None]:
    with api_transport(kubeconfig) as api, ControllerSystem(transport=api, controllers=(backup_spec(service),)):
        yield


@contextmanager
def with_kopf(kubeconfig: Path, service: BackupClient) -> Iterator[None]:
    with with_rights(kubeconfig, "backup-operator"), kopf_running(KOPF, service=service):
        yield


@pytest.mark.parametrize("running", [with_kcm, with_kopf], ids=["kcm", "kopf"])
def test_copy_is_made_and_deleted_over_http(
    running: Callable[[Path, BackupClient], AbstractContextManager[None]],
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    service = MemoryService(takes=1.0)
    with serving(service) as url, config.new_client_from_config(str(kubeconfig)) as api:
        where, body = ("example.com", "v1", "default", "backups"), manifest("backup.yml")
        define(api, manifest("backup-crd.yml"))
        backups: Any = client.CustomObjectsApi(api)

        def create_backup(name: str, source: str) -> str:
            made = {**body, "metadata": {"name": name}, "spec": {"source": source}}
            return str(backups.create_namespaced_custom_object(*where, made)["metadata"]["uid"])

        def phase(name: str) -> Any:
            return backups.get_namespaced_custom_object(*where, name).get("status", {}).get("phase")

        with running(kubeconfig, BackupClient(url)):
            uid = create_backup("monday", "orders")
            create_backup("tuesday", "broken-disk")
            until(lambda: phase("monday") == "Running")
            until(lambda: (phase("monday"), phase("tuesday")) == ("Done", "Failed"))
            assert service.stored()[uid].source == "orders"
            # A status that was lost is written again, and no second copy is made.
            backups.patch_namespaced_custom_object_status(*where, "monday", {"status": None})
            until(lambda: phase("monday") == "Done")
            assert len(service.stored()) == 2
            for name in ("monday", "tuesday"):
                backups.delete_namespaced_custom_object(*where, name)
            until(lambda: not backups.list_namespaced_custom_object(*where)["items"])
            assert service.stored() == {}
        events: Any = client.CoreV1Api(api).list_namespaced_event("default").items
        reasons = {(event.involved_object.name, event.reason) for event in events}
        assert {("monday", "Stored"), ("tuesday", "CopyFailed")} <= reasons
