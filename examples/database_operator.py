"""Database operator: a Database has a StatefulSet, two Services and a password, and is upgraded one pod at a time.

kubectl apply -f examples/database-crd.yml -f examples/backup-crd.yml -f examples/database.yml
python examples/database_operator.py --kubeconfig ~/.kube/config
run-kcm manifests --name database-operator examples/database_operator.py:DATABASE

A Database with `backup: true` waits before an upgrade for a Backup, which backup_operator.py makes.
"""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backup_operator import BACKUPS

from kcm import ControllerSpec, Key, Object, Queue, Reconciliation, Resource, Watch, main
from kcm.commands import create, delete, record
from kcm.manifests import DefinitionFile, Permission
from kcm.objects import (
    controlled_by,
    find_condition,
    is_deleting,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    own,
    owned,
    set_condition,
)
from kcm.outcomes import AlreadyExists, CommandError
from kcm.specs import Change, ControllerContext, its_controller, itself
from kcm.steps import Step, call, ensure, must, patch_status
from kcm.tables import Tables

DATABASES = Resource(group="example.com", version="v1", plural="databases", kind="Database")
STATEFUL_SETS = Resource(group="apps", version="v1", plural="statefulsets", kind="StatefulSet")
SERVICES = Resource(version="v1", plural="services", kind="Service")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
PODS = Resource(version="v1", plural="pods", kind="Pod")
LABEL = "example.com/database"
REVISION = "controller-revision-hash"


class Databases:
    def __init__(self, context: ControllerContext) -> None:
        tables, self._clock = context.tables, context.clock
        self._databases, self._sets, self._services = tables[DATABASES], tables[STATEFUL_SETS], tables[SERVICES]
        self._secrets, self._pods, self._backups = tables[SECRETS], tables[PODS], tables[BACKUPS]

    def reconcile(self, key: Key) -> Reconciliation:
        database = self._databases.get(key)
        if database is None or is_deleting(database):
            return None  # the garbage collector deletes its dependents
        try:
            yield from self._ensure_password(database)
            for service in services_of(database):
                service = own(service, by=database, of=DATABASES)
                yield from ensure(self._services, service, exact=("spec.selector",))
            waits = yield from self._back_up(database)
            if waits:
                yield from self._report(database, None, *waits)
                return None
            pods = yield from ensure(self._sets, own(stateful_set_of(database), by=database, of=DATABASES))
        except CommandError as err:
            if isinstance(err.failure, AlreadyExists):
                yield from self._report(database, None, "NameTaken", str(err))
            raise
        yield from self._upgrade(database, pods)
        return None

    def _ensure_password(self, database: Object) -> Step[None]:
        """Create the Secret with a new password. An existing one is kept, because the database has it."""
        existing = self._secrets.get(make_key(namespace_of(database), name_of(database)))
        if existing is None:
            password = yield from call(secrets.token_urlsafe, timeout=10)
            secret = {"metadata": {"name": name_of(database)}, "type": "Opaque", "stringData": {"password": password}}
            yield from must(create(SECRETS, own(secret, by=database, of=DATABASES)))
        else:
            yield from ensure(self._secrets, own({"metadata": {"name": name_of(database)}}, by=database, of=DATABASES))

    def _back_up(self, database: Object) -> Step[tuple[str, str] | None]:
        """Return the reason and the message why an upgrade has to wait, or None if nothing has to wait."""
        pods = self._sets.get(make_key(namespace_of(database), name_of(database)))
        if not database["spec"].get("backup") or pods is None or not controlled_by(pods, database):
            return None
        if version_of(pods) == database["spec"]["version"]:
            return None
        # The generation changes with each upgrade, so no upgrade uses the copy of an earlier one.
        name = f"{name_of(database)}-{pods['metadata']['generation']}"
        wanted = {"metadata": {"name": name}, "spec": {"source": name_of(database)}}
        backup = yield from ensure(self._backups, own(wanted, by=database, of=DATABASES))
        phase = backup.get("status", {}).get("phase")
        if phase == "Done":
            return None
        return ("BackupFailed" if phase == "Failed" else "BackingUp", f"Backup {name} is {phase or 'new'}")

    def _upgrade(self, database: Object, stateful_set: Object) -> Step[None]:
        """Delete the next pod of an earlier revision once all others are ready, the primary last.

        A pod of an earlier revision that is not ready is replaced first, so that a corrected version ends a failed
        upgrade.
        """
        replicas = database["spec"]["replicas"]
        pods = {ordinal_of(pod): pod for pod in owned(self._pods, by=stateful_set)}
        complete = pods.keys() == {*range(replicas)}  # none is missing, and none is left of a larger database
        status = stateful_set.get("status", {})
        seen = status.get("observedGeneration") == stateful_set["metadata"]["generation"]
        revision = status.get("updateRevision")
        outdated = {number for number, pod in pods.items() if labels_of(pod).get(REVISION) != revision}
        unready = {number for number, pod in pods.items() if not is_ready(pod)}
        if not seen or not complete or any(is_deleting(pod) for pod in pods.values()) or unready - outdated:
            message = f"{len(pods) - len(unready)} of {replicas} pods are ready"
            yield from self._report(database, None, "Starting", message)
        elif outdated:
            yield from self._report(database, None, "Upgrading", f"{len(outdated)} pods have an earlier version")
            # Unchanged, because a pod that is shown as not ready may be ready by now.
            yield from must(delete(PODS, pods[max(outdated & unready or outdated)], unchanged=True))
        else:
            version = database["spec"]["version"]
            yield from self._report(database, version, "Available", f"{replicas} pods have version {version}")

    def _report(self, database: Object, version: str | None, reason: str, message: str) -> Step[None]:
        status, generation = database.get("status", {}), database["metadata"]["generation"]
        present, ready = status.get("conditions"), reason == "Available"
        conditions = set_condition(
            present, "Ready", ready, reason, message, now=self._clock.now(), observed_generation=generation
        )
        changes: dict[str, Any] = {"conditions": conditions, "observedGeneration": generation}
        yield from patch_status(self._databases, database, changes | ({"version": version} if version else {}))
        before = find_condition(present or [], "Ready") or {}
        if before.get("reason") != reason:
            yield record(DATABASES, database, "Normal" if ready else "Warning", reason, message)


def services_of(database: Object) -> Iterator[Object]:
    """Yield the Service that names the pods, and the one of the primary."""
    name, port = name_of(database), {"port": 5432}
    yield {
        "metadata": {"name": f"{name}-pods"},
        "spec": {"clusterIP": "None", "selector": {LABEL: name}, "ports": [port], "publishNotReadyAddresses": True},
    }
    primary = {"statefulset.kubernetes.io/pod-name": f"{name}-0"}
    yield {"metadata": {"name": name}, "spec": {"selector": primary, "ports": [port]}}


def stateful_set_of(database: Object) -> Object:
    name, spec = name_of(database), database["spec"]
    password = {"secretKeyRef": {"name": name, "key": "password"}}
    container = {
        "name": "database",
        "image": f"postgres:{spec['version']}",
        "env": [{"name": "POSTGRES_PASSWORD", "valueFrom": password}],
        "ports": [{"containerPort": 5432}],
    }
    wanted: Object = {
        "metadata": {"name": name},
        "spec": {
            "replicas": spec["replicas"],
            "serviceName": f"{name}-pods",
            "selector": {"matchLabels": {LABEL: name}},
            "updateStrategy": {"type": "OnDelete"},  # the operator chooses the order
            "template": {"metadata": {"labels": {LABEL: name}}, "spec": {"containers": [container]}},
        },
    }
    if "storage" in spec:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["storage"]}}}
        container["volumeMounts"] = [{"name": "data", "mountPath": "/var/lib/postgresql/data"}]
        wanted["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return wanted


def version_of(stateful_set: Object) -> str:
    image: str = stateful_set["spec"]["template"]["spec"]["containers"][0]["image"]
    return image.rpartition(":")[2]


def ordinal_of(pod: Object) -> int:
    return int(name_of(pod).rpartition("-")[2])


def is_ready(pod: Object) -> bool:
    condition = find_condition(pod.get("status", {}).get("conditions", []), "Ready")
    return not is_deleting(pod) and condition is not None and condition["status"] == "True"


def its_database(change: Change, _tables: Tables) -> Iterator[Key]:
    if name := labels_of(change.new).get(LABEL):
        yield make_key(namespace_of(change.new), name)


DEPENDENTS = (STATEFUL_SETS, SERVICES, SECRETS, BACKUPS)
DATABASE = ControllerSpec(
    name="database-controller",
    queues=(
        Queue(
            watches=(
                Watch(DATABASES, to=itself),
                Watch(PODS, to=its_database, labels=LABEL),
                *(Watch(each, to=its_controller(DATABASES, or_successor=True)) for each in DEPENDENTS),
            ),
        ),
    ),
    build=Databases,
    permissions=(
        *(Permission(each, ("ensure",)) for each in DEPENDENTS),
        Permission(PODS, ("delete",)),
        Permission(DATABASES, ("patch",), "status"),
    ),
    definitions=(DefinitionFile(DATABASES, Path(__file__).with_name("database-crd.yml")),),
)


if __name__ == "__main__":
    sys.exit(main([DATABASE], name="database-operator"))
