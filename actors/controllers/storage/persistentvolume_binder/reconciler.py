"""Reconciler of the persistent volume binder.

Input: volumes, claims, StorageClasses, pods, nodes. Output: bindings, phases and events of claims and volumes,
annotations that request provisioning, and the reclamation of volumes. Keys: "namespace/name" of a claim, or the name of
a volume.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller_base.go. The other modules of this package
list the differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcm.actors.controllers.storage.persistentvolume_binder.claims import Claims
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import BinderMetrics
from kcm.actors.controllers.storage.persistentvolume_binder.provisioning import Provisioning
from kcm.actors.controllers.storage.persistentvolume_binder.recycler import Recycling
from kcm.actors.controllers.storage.persistentvolume_binder.recycler_pod import Recycler
from kcm.actors.controllers.storage.persistentvolume_binder.volumes import Volumes
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes
from kcm.actors.reconciliation import Reconciliation
from kcm.protocols.objects import Key
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class PersistentVolumeBinder:
    """Reconciler of claims, volumes and operations on storage. Each of them has its own work queue."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: BinderMetrics,
        recyclers: Mapping[str, Recycler],
        provisions: bool = True,
        host_path: bool = False,
    ) -> None:
        """Create the binder.

        recyclers: recycler by volume plugin.
        provisions: value of --enable-dynamic-provisioning.
        host_path: value of --enable-hostpath-provisioner.
        """
        self._claims, self._volumes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PERSISTENT_VOLUMES]
        self._metrics = metrics
        writes = Writes(log=log)
        self._of_claims = Claims(tables=tables, writes=writes, metrics=metrics, provisions=provisions)
        self._of_volumes = Volumes(tables=tables, writes=writes, metrics=metrics)
        self._recycling = Recycling(tables=tables, volumes=self._of_volumes, writes=writes, recyclers=recyclers)
        self._provisioning = Provisioning(
            tables=tables,
            clock=clock,
            claims=self._of_claims,
            volumes=self._of_volumes,
            writes=writes,
            metrics=metrics,
            host_path=host_path,
        )

    def sync_claim(self, key: Key) -> Reconciliation:
        claim = self._claims.get(key)
        if claim is None:
            self._metrics.forget(key)
            return None
        yield from self._of_claims.sync(claim)
        return None

    def sync_volume(self, name: Key) -> Reconciliation:
        volume = self._volumes.get(name)
        if volume is None:
            self._metrics.done(name)
            return None
        yield from self._of_volumes.sync(volume)
        return None

    def provision(self, key: Key) -> Reconciliation:
        return self._provisioning.provision(key)

    def delete(self, name: Key) -> Reconciliation:
        return self._provisioning.delete(name)

    def recycle(self, name: Key) -> Reconciliation:
        return self._recycling.recycle(name)

    def count(self) -> Reconciliation:
        """Set the gauges that count volumes and claims. Called periodically."""
        yield from ()
        self._metrics.count(self._volumes.entries(), self._claims.entries())
        return None
