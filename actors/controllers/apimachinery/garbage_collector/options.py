"""Flags of the garbage collector."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageCollectorOptions(ControllerOptions):
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
