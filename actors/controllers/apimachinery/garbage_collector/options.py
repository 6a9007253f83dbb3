"""Flags of the garbage collector."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class GarbageCollectorOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "GarbageCollectorController"

    enabled: bool = flag(
        True,
        "Delete objects whose owners are gone. Must match the flag of kube-apiserver.",
        name="enable-garbage-collector",
        config="EnableGarbageCollector",
    )
    concurrent_syncs: int = flag(
        20,
        "Number of objects that the garbage collector processes concurrently.",
        name="concurrent-gc-syncs",
        config="ConcurrentGCSyncs",
    )
