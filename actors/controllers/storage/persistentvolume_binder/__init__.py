"""PersistentVolume binder: binds claims to volumes, requests new volumes for claims, and reclaims released volumes."""

from __future__ import annotations

from kcm.actors.controllers.storage.persistentvolume_binder.options import PersistentVolumeBinderOptions
from kcm.actors.controllers.storage.persistentvolume_binder.spec import SPEC

__all__ = ["SPEC", "PersistentVolumeBinderOptions"]
