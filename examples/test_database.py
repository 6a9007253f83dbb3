"""The database operator on virtual time, with a pod that fails, and under faults.

python -m pytest examples/test_database.py, or for more seeds, in examples/:
python -m kcm.simulate --setting test_database:SETTING --seeds 1000
"""

import functools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import test_backup
from backup_operator import BACKUPS, backup_spec
from backup_service import MemoryService
from database_operator import (
    DATABASE,
    DATABASES,
    DEPENDENTS,
    LABEL,
    PODS,
    REVISION,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    is_ready,
    version_of,
)
from kopf_runs import kopf_running, registry_of, with_rights
from kubernetes import client, config
from msgspec.structs import replace
from remote_checks import define, until
from test_website import CRDS, manifest

from kcm import BUILT_IN, ControllerSystem, Key, Object, Resource, api_transport
from kcm.manager import Request, Transport
from kcm.objects import controlled_by, decode_object, find_condition, is_deleting, labels_of, name_of
from kcm.testing import (
    Action,
    Committed,
    Fail,
    Observation,
    Owns,
    Scenario,
    Sent,
    Setting,
    SimulatedCluster,
    Trial,
    draw_plan,
    must_hold,
)

KOPF = registry_of("database_operator_kopf")
NAME = "orders"
KEY = f"default/{NAME}"
NEEDED = ("statefulset-controller", "garbage-collector-controller", "taint-eviction-controller")
OTHERS = tuple(spec for spec in BUILT_IN if spec.name in NEEDED)

# User actions.


def create(at: float, replicas: int, *, backup: bool) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(DATABASES, KEY)
        if there is None:
            spec = {"version": version_at(at), "replicas": replicas, "backup": backup}
            cluster.create(DATABASES, {"metadata": {"name": NAME, "namespace": "default"}, "spec": spec})
        return there is None or not is_deleting(there)

    return Action(at, f"the database is created with {replicas} pods", do)


def version_at(at: float) -> str:
    """Return a version: later ones are higher, in a reduced scenario as well."""
    return f"17.{int(at * 10)}"


def if_it_exists(at: float, resource: Resource, key: Key, changes: Object | None) -> Action:
    """Merge changes into an object, or delete it if they are None; do nothing if it does not exist."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, key) is not None:
            if changes is None:
                cluster.delete(resource, key)
            else:
                cluster.merge(resource, key, changes)
        return True

    return Action(at, f"{resource.kind} {key} is {'deleted' if changes is None else f'changed: {changes}'}", do)


def upgrade(at: float) -> Action:
    return if_it_exists(at, DATABASES, KEY, {"spec": {"version": version_at(at)}})


def scale(at: float, replicas: int) -> Action:
    return if_it_exists(at, DATABASES, KEY, {"spec": {"replicas": replicas}})


def tamper(at: float, chance: random.Random) -> Action:
    """Delete or change a dependent by hand."""
    match chance.randrange(4):
        case 0:
            return if_it_exists(at, PODS, f"{KEY}-{chance.randrange(3)}", None)
        case 1:
            return if_it_exists(at, SERVICES, chance.choice((KEY, f"{KEY}-pods")), None)
        case 2:
            return if_it_exists(at, SERVICES, KEY, {"spec": {"selector": {"a": "b"}}})
        case _:
            return if_it_exists(at, STATEFUL_SETS, KEY, {"spec": {"replicas": 0}})


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("databases")
    backup = chance.random() < 0.5
    yield from scenario.life(
        chance,
        make=lambda at: iter([create(at, chance.randint(1, 3), backup=backup)]),
        changes=[
            lambda at: iter([upgrade(at)]),
            lambda at: iter([upgrade(at)]),
            lambda at: iter([scale(at, chance.randint(1, 3))]),
            lambda at: iter([tamper(at, chance)]),
        ],
        remove=lambda at: iter([if_it_exists(at, DATABASES, KEY, None)]),
        most=5,
    )


# Expected end state.


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    for database in cluster.shown(DATABASES):
        if is_deleting(database):
            yield f"{name_of(database)} is still being deleted"
            continue
        spec, status, meta = database["spec"], database.get("status", {}), database["metadata"]
        for resource, key in ((SECRETS, KEY), (SERVICES, KEY), (SERVICES, f"{KEY}-pods"), (STATEFUL_SETS, KEY)):
            dependent = cluster.get(resource, key)
            if dependent is None or not controlled_by(dependent, database):
                yield f"{resource.kind} {key} is {'missing' if dependent is None else 'not its own'}"
        pods = [pod for pod in cluster.shown(PODS) if labels_of(pod).get(LABEL) == NAME]
        versions = [image_version(pod) for pod in pods if is_ready(pod)]
        if versions != [spec["version"]] * spec["replicas"]:
            yield f"the ready pods have versions {versions}, not {spec['replicas']} times {spec['version']}"
        if status.get("version") != spec["version"] or reason_of(database) != "Available":
            yield f"it reports version {status.get('version')} and {reason_of(database)}"
        if status.get("observedGeneration") != meta["generation"]:
            yield f"the status is of generation {status.get('observedGeneration')}, not {meta['generation']}"
        service = cluster.get(SERVICES, KEY)
        if service is not None and service["spec"]["selector"] != {"statefulset.kubernetes.io/pod-name": f"{NAME}-0"}:
            yield f"the Service selects {service['spec']['selector']}"


def image_version(pod: Object) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image.rpartition(":")[2]


def reason_of(database: Object) -> str:
    condition = find_condition(database.get("status", {}).get("conditions", []), "Ready") or {}
    return str(condition.get("reason", ""))


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    databases = cluster.list(DATABASES)
    pods = [pod for pod in cluster.list(PODS) if labels_of(pod).get(LABEL) == NAME]
    return {
        "databases": {name_of(each): (each["spec"], each["status"].get("version")) for each in databases},
        "pods": {name_of(pod): image_version(pod) for pod in pods},
    }


# Invariants.


class OnePodAtATime:
    """The operator deletes a ready pod after the replacement of the last one is ready, and the primary last."""

    name = "one pod at a time, and the primary last"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._replaced: tuple[str, str] | None = None  # name and uid of the pod that it deleted last
        self._owner = ""  # uid of the StatefulSet of that pod

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == "pods" and self._replaced is not None and change.type != "DELETED":
                    pod = decode_object(change.raw)
                    name, uid = self._replaced
                    if pod["metadata"]["name"] == name and pod["metadata"]["uid"] != uid and is_ready(pod):
                        self._replaced = None
        match observation:
            case Sent(client="database-controller", request=request) if request.method == "DELETE":
                name = request.path.partition("/pods/")[2].partition("?")[0]
                deleted = self._cluster.get(PODS, f"default/{name}") if name else None
                if deleted is not None and is_ready(deleted) and is_met(request, deleted):
                    self._check(deleted, fail)

    def _check(self, pod: Object, fail: Fail) -> None:
        """Check the deletion of a ready pod."""
        name, uid = name_of(pod), pod["metadata"]["uid"]
        stateful_set = self._cluster.get(STATEFUL_SETS, KEY)
        if stateful_set is None or not controlled_by(pod, stateful_set):
            return
        if self._replaced is not None and self._owner == stateful_set["metadata"]["uid"]:
            last, last_uid = self._replaced
            is_wanted = ordinal_of_name(last) < stateful_set["spec"]["replicas"]
            if is_wanted and last_uid != uid:
                fail(f"{name} is deleted before the replacement of {last} is ready")
        if ordinal_of_name(name) == 0:
            revision = labels_of(pod).get(REVISION)
            for other in self._cluster.list(PODS):
                is_old = controlled_by(other, stateful_set) and labels_of(other).get(REVISION) == revision
                if is_old and name_of(other) != name:
                    fail(f"the primary is deleted, and {name_of(other)} still has its version")
        self._replaced, self._owner = (name, uid), stateful_set["metadata"]["uid"]


def is_met(request: Request, pod: Object) -> bool:
    """Report whether the version that a deletion requires is that of the pod."""
    required = decode_object(request.body).get("preconditions", {}).get("resourceVersion") if request.body else None
    return required in (None, pod["metadata"]["resourceVersion"])


def ordinal_of_name(pod: str) -> int:
    return int(pod.rpartition("-")[2])


class PasswordIsKept:
    """The password of a Database never changes, because the database in the volumes has it."""

    name = "the password is kept"

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}  # by uid of the Secret

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == "secrets" and change.key == KEY and change.type != "DELETED":
                    secret = decode_object(change.raw)
                    password = secret.get("data", {}).get("password")
                    if not password or self._known.setdefault(secret["metadata"]["uid"], password) != password:
                        fail(f"the password in {change.key} is {'changed' if password else 'missing'}")


class BackupBeforeUpgrade:
    """The version of a StatefulSet changes only after a Backup of this upgrade, if the Database requires one."""

    name = "an upgrade begins after its backup"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._versions: dict[str, tuple[str, int]] = {}  # by uid of the StatefulSet: version and generation

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage != "statefulsets.apps" or change.type == "DELETED":
                continue
            pods, database = decode_object(change.raw), self._cluster.get(DATABASES, KEY)
            uid, now = pods["metadata"]["uid"], (version_of(pods), pods["metadata"]["generation"])
            before = self._versions.get(uid, now)
            self._versions[uid] = now
            if now[0] == before[0] or database is None or not database["spec"].get("backup"):
                continue
            backups = [each for each in self._cluster.list(BACKUPS) if controlled_by(each, database)]
            if not any(each.get("status", {}).get("phase") == "Done" for each in backups):
                fail(f"{name_of(pods)} is upgraded from {before[0]} to {now[0]} without a Backup")


# Trial and setting.

TRIAL = Trial(
    controller=DATABASE.name,
    owns=(*(Owns(DATABASES, each) for each in DEPENDENTS), Owns(STATEFUL_SETS, PODS)),
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, _options: (OnePodAtATime(cluster), PasswordIsKept(), BackupBeforeUpgrade(cluster)),
)
COPIES = replace(test_backup.TRIAL, actions=lambda _scenario: iter(()), end_state=lambda _cluster: {})


def prepare(cluster: SimulatedCluster) -> None:
    for name in ("backup-crd.yml", "database-crd.yml"):
        cluster.create(CRDS, manifest(name))


SETTING = Setting(
    name="test_database:SETTING",
    outside=lambda environment: MemoryService(now=environment.clock.monotonic, takes=3.0),
    controllers=lambda service: (*OTHERS, backup_spec(service), DATABASE),
    trials=(TRIAL, COPIES),
    prepare=prepare,
    draw=functools.partial(draw_plan, resources=("*", "databases", "statefulsets", "services", "secrets", "pods")),
)


@pytest.mark.parametrize("seed", range(4))
def test_database_matches_its_spec_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


@pytest.fixture
def available(world: SimulatedCluster) -> SimulatedCluster:
    prepare(world)
    world.hollow_nodes()
    world.manager(controllers=(*BUILT_IN, DATABASE))
    world.create(DATABASES, manifest("database.yml"))
    assert world.run_until(lambda: is_available(world, "17.1"), within=120)
    return world


def is_available(cluster: SimulatedCluster, version: str) -> bool:
    database = cluster.get(DATABASES, KEY) or {}
    return reason_of(database) == "Available" and database["status"]["version"] == version


def test_pods_are_upgraded_one_at_a_time_and_the_primary_last(available: SimulatedCluster) -> None:
    order: list[str] = []

    def upgraded() -> bool:
        for pod in available.list(PODS):
            if image_version(pod) == "17.2" and name_of(pod) not in order:
                order.append(name_of(pod))
        return is_available(available, "17.2")

    available.merge(DATABASES, KEY, {"spec": {"version": "17.2"}})
    assert available.run_until(upgraded, within=300)
    assert order == ["orders-2", "orders-1", "orders-0"]


def test_corrected_version_ends_a_failed_upgrade(available: SimulatedCluster) -> None:
    broken = {"hollow.kcm.dev/ready": "false"}
    available.merge(STATEFUL_SETS, KEY, {"spec": {"template": {"metadata": {"annotations": broken}}}})
    available.merge(DATABASES, KEY, {"spec": {"version": "18.0"}})
    available.run_for(120)
    versions = {name_of(pod): image_version(pod) for pod in available.list(PODS)}
    assert versions == {"orders-0": "17.1", "orders-1": "17.1", "orders-2": "18.0"}, "the others still serve"
    available.merge(STATEFUL_SETS, KEY, {"spec": {"template": {"metadata": {"annotations": None}}}})
    available.merge(DATABASES, KEY, {"spec": {"version": "17.2"}})
    assert available.run_until(lambda: is_available(available, "17.2"), within=300)


# On a running API server, beside the same operator in kopf.


@contextmanager
def with_kcm(transport: Transport) -> Iterator[None]:
    with ControllerSystem(transport=transport, controllers=(*OTHERS, DATABASE)):
        yield


@contextmanager
def with_kopf(transport: Transport) -> Iterator[None]:
    rights = with_rights(Path(os.environ["KUBECONFIG"]), "database-operator")
    with ControllerSystem(transport=transport, controllers=OTHERS), rights, kopf_running(KOPF):
        yield


@pytest.mark.parametrize("running", [with_kcm, with_kopf], ids=["kcm", "kopf"])
def test_database_is_upgraded_after_its_backup_and_repaired(
    running: Callable[[Transport], AbstractContextManager[None]],
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    name, where = running.__name__.replace("_", "-"), ("example.com", "v1", "default")
    with config.new_client_from_config(str(kubeconfig)) as api, api_transport(kubeconfig) as transport:
        core: Any = client.CoreV1Api(api)
        objects: Any = client.CustomObjectsApi(api)
        for file in ("backup-crd.yml", "database-crd.yml"):
            define(api, manifest(file))
        core.create_namespaced_service("default", {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}})

        def verdict() -> tuple[str, Any]:
            status = objects.get_namespaced_custom_object(*where, "databases", name).get("status", {})
            condition = find_condition(status.get("conditions", []), "Ready") or {}
            return str(condition.get("reason", "")), status.get("version")

        def images() -> dict[str, str]:
            found = core.list_namespaced_pod("default", label_selector=f"{LABEL}={name}").items
            return {pod.metadata.name: pod.spec.containers[0].image for pod in found}

        def selector() -> Any:
            return core.read_namespaced_service(name, "default").spec.selector

        with running(transport):
            body = {**manifest("database.yml"), "metadata": {"name": name}}
            body["spec"] = {"version": "17.1", "replicas": 2, "backup": True}
            objects.create_namespaced_custom_object(*where, "databases", body)
            until(lambda: verdict() == ("NameTaken", None))
            core.delete_namespaced_service(name, "default")
            until(lambda: verdict() == ("Available", "17.1"))
            password = core.read_namespaced_secret(name, "default").data["password"]
            # An upgrade waits for its backup, and replaces the primary last.
            objects.patch_namespaced_custom_object(*where, "databases", name, {"spec": {"version": "17.2"}})
            until(lambda: verdict() == ("BackingUp", "17.1"))
            (backup,) = objects.list_namespaced_custom_object(*where, "backups")["items"]
            assert set(images().values()) == {"postgres:17.1"}
            meta = backup["metadata"]["name"]
            objects.patch_namespaced_custom_object_status(*where, "backups", meta, {"status": {"phase": "Done"}})
            seen: list[dict[str, str]] = []

            def upgraded() -> bool:
                seen.append(images())
                return verdict() == ("Available", "17.2")

            until(upgraded)
            new = [{pod for pod, image in each.items() if image == "postgres:17.2"} for each in seen]
            assert {f"{name}-0"} not in new, "the primary is last"
            assert new[-1] == {f"{name}-0", f"{name}-1"}
            # Manual changes are reverted, and the password is kept.
            core.delete_namespaced_service(name, "default")
            until(lambda: name in [each.metadata.name for each in core.list_namespaced_service("default").items])
            primary = "statefulset.kubernetes.io/pod-name"
            core.patch_namespaced_service(name, "default", {"spec": {"selector": {primary: "nobody"}}})
            until(lambda: selector()[primary] == f"{name}-0")
            assert core.read_namespaced_secret(name, "default").data["password"] == password
            objects.delete_namespaced_custom_object(*where, "backups", meta)
            objects.delete_namespaced_custom_object(*where, "databases", name)
