"""The operator of backup_operator.py written with kopf, for comparison.

kubectl apply -f examples/backup-crd.yml -f examples/backup.yml
BACKUP_SERVICE=http://127.0.0.1:8080 kopf run examples/backup_operator_kopf.py
"""

import os
from typing import Any

import kopf
from backup_service import BackupClient

BACKUPS = ("example.com", "v1", "backups")
ENDED = ("Done", "Failed")
SOON = 1.0  # seconds


@kopf.on.startup()
def start(memo: kopf.Memo, **_: Any) -> None:
    if "service" not in memo:
        memo.service = BackupClient(os.environ.get("BACKUP_SERVICE", "http://127.0.0.1:8080"))


@kopf.on.login()
def login(**arguments: Any) -> Any:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create(*BACKUPS)
@kopf.on.resume(*BACKUPS)
@kopf.on.field(*BACKUPS, field="status.phase", new=kopf.ABSENT)  # the status is lost
def copy(
    uid: str, spec: kopf.Spec, status: kopf.Status, patch: kopf.Patch, body: kopf.Body, memo: kopf.Memo, **_: Any
) -> None:
    if status.get("phase") in ENDED:
        return
    copy = memo.service.start(uid, spec["source"])
    patch.status.update({"phase": copy["state"], "bytes": copy["bytes"]})
    if copy["state"] not in ENDED:
        raise kopf.TemporaryError("the copy is not complete", delay=SOON)
    if copy["state"] == "Done":
        kopf.event(body, type="Normal", reason="Stored", message="The copy is complete")
    else:
        kopf.event(body, type="Warning", reason="CopyFailed", message="The copy failed")


@kopf.on.delete(*BACKUPS)
def remove(uid: str, memo: kopf.Memo, **_: Any) -> None:
    if not memo.service.delete(uid):
        raise kopf.TemporaryError("the copy is not deleted yet", delay=SOON)
