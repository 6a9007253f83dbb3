"""Backup operator: a Backup has a copy of its source in a service outside the cluster, for as long as it exists.

python examples/backup_service.py &
kubectl apply -f examples/backup-crd.yml -f examples/backup.yml
python examples/backup_operator.py --kubeconfig ~/.kube/config --backup-service=http://127.0.0.1:8080
run-kcm manifests --name backup-operator examples/backup_operator.py:backup_spec
"""

import sys
from pathlib import Path

from backup_service import BackupClient, BackupService

from kcm import ControllerSpec, Key, Queue, Reconciliation, RequeueAfter, Resource, Watch, main
from kcm.commands import record
from kcm.manifests import DefinitionFile, Permission
from kcm.objects import uid_of
from kcm.specs import ControllerContext, ControllerOptions, flag, itself
from kcm.steps import call, finalize, patch_status

BACKUPS = Resource(group="example.com", version="v1", plural="backups", kind="Backup")
STORED = "example.com/stored"  # the finalizer
SOON = RequeueAfter(1.0)  # no event reports that the service has finished
ENDED = ("Done", "Failed")


class BackupOptions(ControllerOptions, frozen=True, kw_only=True):
    service: str = flag("http://127.0.0.1:8080", "URL of the service that makes backups.", name="backup-service")


class Backups:
    def __init__(self, context: ControllerContext, service: BackupService | None) -> None:
        self._backups = context.tables[BACKUPS]
        self._service = service or BackupClient(context.options[BackupOptions].service)

    def reconcile(self, key: Key) -> Reconciliation:
        backup = yield from finalize(self._backups, key, STORED, self._service.delete, timeout=10)
        if backup is None or backup.get("status", {}).get("phase") in ENDED:
            return None
        # The uid is the number: a call that is repeated starts no second copy, and a namesake has a copy of its own.
        copy = yield from call(self._service.start, uid_of(backup), backup["spec"]["source"], timeout=10)
        yield from patch_status(self._backups, backup, {"phase": copy["state"], "bytes": copy["bytes"]})
        if copy["state"] not in ENDED:
            return SOON
        if copy["state"] == "Done":
            yield record(BACKUPS, backup, "Normal", "Stored", "The copy is complete")
        else:
            yield record(BACKUPS, backup, "Warning", "CopyFailed", "The copy failed")
        return None


def backup_spec(service: BackupService | None = None) -> ControllerSpec:
    """Return the controller. service: None for a client of the service that --backup-service names."""
    return ControllerSpec(
        name="backup-controller",
        queues=(Queue(watches=(Watch(BACKUPS, to=itself),)),),
        options=BackupOptions,
        build=lambda context: Backups(context, service),
        permissions=(Permission(BACKUPS, ("patch",)), Permission(BACKUPS, ("patch",), "status")),
        definitions=(DefinitionFile(BACKUPS, Path(__file__).with_name("backup-crd.yml")),),
    )


if __name__ == "__main__":
    sys.exit(main([backup_spec()], name="backup-operator"))
