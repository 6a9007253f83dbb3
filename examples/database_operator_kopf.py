"""The operator of database_operator.py written with kopf, for comparison. It creates the same objects.

kubectl apply -f examples/database-crd.yml -f examples/backup-crd.yml -f examples/database.yml
kopf run examples/database_operator_kopf.py
"""

import secrets
from contextlib import suppress
from typing import Any

import kopf
from database_operator import LABEL, REVISION, is_ready, ordinal_of, services_of, stateful_set_of, version_of
from kopf_objects import Api, apply, follow_dependents, get, is_owned, report
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

DATABASES = ("example.com", "v1", "databases")
LATER = 10.0  # seconds
Verdict = tuple[str, str, str]  # status and reason of the condition Ready, and its message


class TakenError(Exception):
    """An object with the name that a Database needs has another owner."""


@kopf.on.startup()
def start(memo: kopf.Memo, **_: Any) -> None:
    memo.api = Api(
        databases=("example.com/v1", "Database"),
        backups=("example.com/v1", "Backup"),
        sets=("apps/v1", "StatefulSet"),
        services=("v1", "Service"),
        secrets=("v1", "Secret"),
        pods=("v1", "Pod"),
    )


@kopf.on.login()
def login(**arguments: Any) -> Any:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create(*DATABASES)
@kopf.on.update(*DATABASES)
@kopf.on.resume(*DATABASES)
def follow(name: str, namespace: str | None, uid: str, memo: kopf.Memo, **_: Any) -> None:
    with memo.api.lock:
        database = get(memo.api.databases, name, namespace)
        if database is None or database["metadata"]["uid"] != uid or "deletionTimestamp" in database["metadata"]:
            return
        status: dict[str, Any] = {"observedGeneration": database["metadata"]["generation"]}
        try:
            verdict = provide(memo.api, database)
        except TakenError as err:
            verdict = ("False", "NameTaken", str(err))
        if verdict[0] == "True":
            status["version"] = database["spec"]["version"]
        report(memo.api.databases, database, status, *verdict)
    if verdict[1] == "NameTaken":  # no event reports that the name is free
        raise kopf.TemporaryError(verdict[2], delay=LATER)


RESOURCES = (("v1", "secrets"), ("v1", "services"), ("apps", "v1", "statefulsets"), ("example.com", "v1", "backups"))
follow_dependents(lambda memo: memo.api.databases, LABEL, *RESOURCES)


@kopf.on.event("v1", "pods", labels={LABEL: kopf.PRESENT})
def follow_pod(name: str, namespace: str | None, labels: Any, body: kopf.Body, memo: kopf.Memo, **_: Any) -> None:
    """Annotate the Database of a pod, whose owner is the StatefulSet."""
    mark = {"example.com/look-again": f"{name} {body['metadata']['resourceVersion']}"}
    patch, merge = {"metadata": {"annotations": mark}}, "application/merge-patch+json"
    if get(memo.api.databases, labels[LABEL], namespace) is not None:
        memo.api.databases.patch(body=patch, name=labels[LABEL], namespace=namespace, content_type=merge)


def provide(api: Api, database: Any) -> Verdict:
    name, namespace, spec = database["metadata"]["name"], database["metadata"]["namespace"], database["spec"]
    if existing(api.secrets, name, database) is None:
        password = {"password": secrets.token_urlsafe()}
        apply(api.secrets, name, namespace, database, LABEL, type="Opaque", stringData=password)
    for service in services_of(database):
        ensure(api.services, service, database)
    pods = existing(api.sets, name, database)
    if pods is not None and spec.get("backup") and version_of(pods) != spec["version"]:
        # The generation changes with each upgrade, so no upgrade uses the copy of an earlier one.
        wanted = {"metadata": {"name": f"{name}-{pods['metadata']['generation']}"}, "spec": {"source": name}}
        phase = ensure(api.backups, wanted, database).get("status", {}).get("phase")
        if phase != "Done":
            reason = "BackupFailed" if phase == "Failed" else "BackingUp"
            return "False", reason, f"Backup {wanted['metadata']['name']} is {phase or 'new'}"
    return upgrade(api, database, ensure(api.sets, stateful_set_of(database), database))


def existing(kind: Any, name: str, database: Any) -> Any:
    """Return the object, None if it does not exist. Raises TakenError if it has another owner."""
    found = get(kind, name, database["metadata"]["namespace"])
    if found is not None and not is_owned(found, database["metadata"]["uid"]):
        raise TakenError(f"{kind.kind} {name} has another owner")
    return found


def ensure(kind: Any, wanted: Any, database: Any) -> Any:
    name = wanted["metadata"]["name"]
    existing(kind, name, database)
    return apply(kind, name, database["metadata"]["namespace"], database, LABEL, spec=wanted["spec"])


def upgrade(api: Api, database: Any, stateful_set: Any) -> Verdict:
    """Delete the next pod of an earlier revision once all others are ready, the primary last."""
    namespace, replicas = database["metadata"]["namespace"], database["spec"]["replicas"]
    selector = f"{LABEL}={database['metadata']['name']}"
    found = api.pods.get(namespace=namespace, label_selector=selector).to_dict()["items"]
    pods = {ordinal_of(pod): pod for pod in found if is_owned(pod, stateful_set["metadata"]["uid"])}
    status = stateful_set.get("status", {})
    seen = status.get("observedGeneration") == stateful_set["metadata"]["generation"]
    revision = status.get("updateRevision")
    outdated = {number for number, pod in pods.items() if pod["metadata"]["labels"].get(REVISION) != revision}
    unready = {number for number, pod in pods.items() if not is_ready(pod)}
    deleting = any("deletionTimestamp" in pod["metadata"] for pod in pods.values())
    if not seen or pods.keys() != {*range(replicas)} or deleting or unready - outdated:
        return "False", "Starting", f"{len(pods) - len(unready)} of {replicas} pods are ready"
    if outdated:
        meta = pods[max(outdated & unready or outdated)]["metadata"]
        with suppress(NotFoundError, ConflictError):  # another pod has its name, and its event calls this again
            api.pods.delete(name=meta["name"], namespace=namespace, body={"preconditions": {"uid": meta["uid"]}})
        return "False", "Upgrading", f"{len(outdated)} pods have an earlier version"
    version = database["spec"]["version"]
    return "True", "Available", f"{replicas} pods have version {version}"
