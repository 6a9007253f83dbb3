"""Mutants of the attach/detach controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.storage.attach_detach import reconciler
from kcm.actors.controllers.storage.attach_detach.decisions import Detachment
from kcm.actors.controllers.storage.attach_detach.observation import WorldObserver
from kcm.actors.controllers.storage.attach_detach.operation_executor import OperationExecutor
from kcm.actors.controllers.storage.attach_detach.reconciler import AttachDetach
from kcm.actors.controllers.storage.attach_detach.state import ActualState
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import ATTACHMENTS_SETTING
from tests.faults.mutants.mutant import Mutant


def nodes_with_the_volume_are_ignored() -> Any:
    """An exclusive volume is requested for a second node while the first one has it."""

    def none(_self: ActualState, _volume: str) -> list[str]:
        return []

    return patch.object(ActualState, "confirmed_nodes", none)


def nodes_report_detached_volumes() -> Any:
    """A volume is detached before its node stops reporting it."""
    return patch.object(AttachDetach, "_is_reported", lambda *_: False)


@contextmanager
def mounted_volumes_are_detached() -> Iterator[None]:
    """A volume is detached although the kubelet uses it."""

    def unused(self: OperationExecutor, volume: str, node: str) -> Step[str]:
        yield from ()
        return ""

    with (
        patch.object(reconciler, "decide_detachment", lambda **_: Detachment()),
        patch.object(OperationExecutor, "_verify", unused),
    ):
        yield


def attachments_are_not_recovered() -> Any:
    """VolumeAttachments that nodes do not report are forgotten at a restart, and are never deleted."""
    return patch.object(WorldObserver, "_recover", lambda *_: None)


ATTACHMENTS = (
    Mutant(
        name="nodes that have the volume are ignored",
        source="the multi-attach check in attachDesiredVolumes of reconciler.go",
        mutation=nodes_with_the_volume_are_ignored,
        setting=ATTACHMENTS_SETTING,
    ),
    Mutant(
        name="a volume is detached while its node reports it",
        source="the order of UpdateNodeStatusForNode and DetachVolume in reconciler.go",
        mutation=nodes_report_detached_volumes,
        setting=ATTACHMENTS_SETTING,
    ),
    Mutant(
        name="a volume is detached while it is mounted",
        source="the check of volumesInUse in reconciler.go and verifyVolumeIsSafeToDetach",
        mutation=mounted_volumes_are_detached,
        setting=ATTACHMENTS_SETTING,
    ),
    Mutant(
        name="attachments are forgotten at a restart",
        source="processVolumeAttachments of attach_detach_controller.go, which older releases did not have",
        mutation=attachments_are_not_recovered,
        setting=ATTACHMENTS_SETTING,
    ),
)
