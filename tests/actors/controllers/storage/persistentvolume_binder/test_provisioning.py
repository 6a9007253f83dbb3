"""Tests of the provisioning of hostPath volumes, with upstream's table of cases and their numbers.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/provision_test.go (sets 11 and 12).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.controllers.storage.persistentvolume_binder import provisioning
from kcm.actors.controllers.storage.persistentvolume_binder.host_path import (
    delete_directory,
    deletion_problem,
    make_directory,
)
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import ERRORS_TOTAL, OPERATION_SECONDS
from kcm.actors.controllers.storage.persistentvolume_binder.provisioning import ProvisioningError
from kcm.actors.reconciliation import RequeueAfter
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Get, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Outcome, ServerFailure
from kcm.protocols.objects import Object, annotations_of, decode_object, finalizers_of
from kcm.protocols.resources import PERSISTENT_VOLUMES
from kcm.protocols.volumes import SELECTED_NODE
from tests.actors.controllers.storage.persistentvolume_binder.scene import (
    HOST_PATH,
    Scene,
    answering,
    claim,
    class_,
    volume,
)

KEY = "default/claim"
OURS = class_("gold", HOST_PATH)
ANNOTATED = f"claim Pending +{HOST_PATH}"


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the directory that is created for the claim."""
    monkeypatch.setattr(provisioning, "directory_for", lambda uid: str(tmp_path / uid))
    return tmp_path / "uid"


def scene(of: Object | None = None, *classes: Object, **more: Any) -> Scene:
    options = {"enable_hostpath_provisioner": True, **more.pop("options", {})}
    return Scene([], [of or claim(class_="gold")], classes or (OURS,), **more, **options)


def provision(on: Scene, **how: Any) -> list[tuple[str, str, str]]:
    """Sync the claim and run its provisioning. Return the events."""
    looked = on.sync_claim()
    assert [(enqueue.queue, enqueue.key) for enqueue in looked.enqueued] == [("provisionings", KEY)]
    return on.run("provisionings", KEY, **how).events


def test_volume_is_provisioned(made: Path) -> None:  # 11-1, 11-13
    on = scene()
    text = f"Successfully provisioned volume pvc-uid using {HOST_PATH}"
    assert provision(on) == [("Normal", "ProvisioningSucceeded", text)]
    assert made.is_dir()
    assert on.volumes == ["pvc-uid Bound claim/uid +us +provisioned"]
    assert on.claims == [ANNOTATED]
    volume_ = on.volume("pvc-uid")
    assert finalizers_of(volume_) == ("kubernetes.io/pv-controller",)
    assert volume_["spec"]["storageClassName"] == "gold"
    assert on.run("provisionings", KEY).events == []  # 11-7: the volume exists
    on.sync_claim()  # 12-1
    assert on.claims == [f"claim Bound pvc-uid +us +done +{HOST_PATH}"]
    assert sum(on.metrics.histogram(OPERATION_SECONDS, HOST_PATH, "provision").counts) == 1


def test_retained_volume_has_no_in_tree_finalizer() -> None:
    on = scene(None, class_("gold", HOST_PATH, reclaimPolicy="Retain"))
    provision(on)
    assert finalizers_of(on.volume("pvc-uid")) == ()


NO_BLOCKS = f"{HOST_PATH} does not support block volume provisioning"
SOURCE = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}


@pytest.mark.parametrize(
    ("on", "text", "claims"),
    [
        (
            lambda: scene(claim(class_="gold", **SOURCE)),  # 11-25
            f'plugin "{HOST_PATH}" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource',
            ["claim Pending"],
        ),
        (
            lambda: scene(None, class_("gold", HOST_PATH, mountOptions=["a", "b"])),  # 11-20
            'Mount options are not supported by the provisioner but StorageClass "gold" has mount options [a b]',
            [ANNOTATED],
        ),
        (
            lambda: scene(options={"enable_hostpath_provisioner": False}),  # 11-3
            f'Failed to create provisioner: provisioning in volume plugin "{HOST_PATH}" is disabled',
            [ANNOTATED],
        ),
        (
            lambda: scene(claim(class_="gold", marks={SELECTED_NODE: "n"})),
            'Failed to get target node: node "n" not found',
            [ANNOTATED],
        ),
        (
            lambda: scene(claim(class_="gold", volumeMode="Block")),  # 11-4
            f'Failed to provision volume with StorageClass "gold": {NO_BLOCKS}',
            [ANNOTATED],
        ),
    ],
)
def test_failed_provisioning_is_recorded(on: Callable[[], Scene], text: str, claims: list[str]) -> None:
    made_on = on()
    assert provision(made_on, raises=ProvisioningError) == [("Warning", "ProvisioningFailed", text)]
    assert made_on.claims == claims
    assert made_on.metrics.counter(ERRORS_TOTAL, HOST_PATH, "provision").value == 1


WAIT = class_("gold", HOST_PATH, mode="WaitForFirstConsumer")
NODES = [{"metadata": {"name": "n"}}]


def with_unsuitable_node() -> Scene:
    """Return a claim with a node that the scheduler selected, for which the volume cannot be provisioned."""
    return scene(claim(class_="gold", volumeMode="Block", marks={SELECTED_NODE: "n"}), WAIT, nodes=NODES)


def test_selected_node_is_removed_if_the_volume_cannot_be_provisioned_there() -> None:
    on = with_unsuitable_node()
    provision(on, raises=ProvisioningError)
    assert SELECTED_NODE not in annotations_of(on.claim())
    assert on.run("provisionings", KEY).commands == []  # the retry waits for another node
    assert [event[1] for event in on.sync_claim().events] == ["WaitForFirstConsumer"]


def test_failure_is_recorded_even_if_the_node_cannot_be_unset() -> None:
    on = with_unsuitable_node()
    on.sync_claim()

    def answer(command: Command) -> Outcome:
        moved = isinstance(command, Update) and SELECTED_NODE not in annotations_of(decode_object(command.body))
        return Conflict("newer") if moved else on.bench.accept(command)

    for _ in range(2):
        text = f'Failed to provision volume with StorageClass "gold": {NO_BLOCKS}'
        events = on.run("provisionings", KEY, answer=answer, raises=ProvisioningError).events
        assert events == [("Warning", "ProvisioningFailed", text)]


def test_failed_annotation_of_claim_is_retried() -> None:
    on = scene()
    refusing = answering({Update: lambda _: Conflict("newer")}, on.bench.accept)
    assert provision(on, answer=refusing, raises=CommandError) == []
    assert on.metrics.counter(ERRORS_TOTAL, HOST_PATH, "provision").value == 1


def test_available_volume_is_not_bound_if_the_scheduler_selects_a_node() -> None:  # 11-23
    of = claim(class_="gold", marks={SELECTED_NODE: "n"})
    on = Scene([volume("v", class_="gold")], [of], [WAIT], nodes=NODES, enable_hostpath_provisioner=True)
    assert [event[1] for event in provision(on)] == ["ProvisioningSucceeded"]


def test_rejected_volume_is_retried_five_times_then_cleaned_up(made: Path) -> None:  # 11-8, 11-9
    on = scene()
    on.sync_claim()
    refusing = answering({Create: lambda _: ServerFailure("full")}, on.bench.accept)
    for _ in range(4):
        driven = on.run("provisionings", KEY, answer=refusing)
        assert (driven.events, driven.result) == ([], RequeueAfter(10.0))
    text = "Error creating provisioned PV object for claim default/claim: full. Deleting the volume."
    assert on.run("provisionings", KEY, answer=refusing).events == [("Warning", "ProvisioningFailed", text)]
    assert not made.exists()
    assert [event[1] for event in on.run("provisionings", KEY).events] == ["ProvisioningSucceeded"]


@pytest.mark.parametrize("failures", [1, 5])  # 11-12; 11-10, 11-11
def test_failed_cleanup_of_a_directory_is_recorded(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [OSError("busy")] * failures

    def fail(path: str) -> None:
        if left:
            raise left.pop()

    on = scene()
    on.sync_claim()
    monkeypatch.setattr(provisioning, "delete_directory", fail)
    refusing = answering({Create: lambda _: ServerFailure("full")}, on.bench.accept)
    for _ in range(4):
        on.run("provisionings", KEY, answer=refusing)
    (_, *more) = on.run("provisionings", KEY, answer=refusing).events
    text = "Error cleaning provisioned volume for claim default/claim: OSError: busy. Please delete manually."
    assert more == ([("Warning", "ProvisioningCleanupFailed", text)] if failures == 5 else [])


def test_volume_creation_with_unknown_outcome_counts_as_created(made: Path) -> None:  # 11-19
    on = scene()
    known = answering({Create: lambda _: AlreadyExists()}, on.bench.accept)
    assert [event[1] for event in provision(on, answer=known)] == ["ProvisioningSucceeded"]
    assert made.exists()


def test_failed_live_read_is_retried() -> None:
    on = scene()
    failing = answering({Get: lambda _: ServerFailure()}, on.bench.accept)
    assert provision(on, answer=failing, raises=CommandError) == []


@pytest.mark.parametrize("class_name", ["", None])
def test_claim_without_class_is_not_provisioned(class_name: str | None) -> None:  # 11-15, 11-16
    on = scene(claim(class_=class_name))
    assert on.sync_claim().enqueued == []
    assert on.run("provisionings", KEY).commands == []
    assert on.bench.tables[PERSISTENT_VOLUMES].entries() == []


def test_directories_are_created_and_deleted(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    for _ in range(2):
        make_directory(str(path))
    (path / "file").touch()
    for _ in range(2):
        delete_directory(str(path))
    assert not path.exists()


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/tmp/x", True),
        ("/tmp/", False),
        ("/tmp", False),
        ("/etc", False),
        ("/tmp/../etc", False),
        ("/var/tmp/x", False),
    ],
)
def test_only_directories_below_tmp_are_deletable(path: str, may: bool) -> None:
    assert (deletion_problem(path) == "") is may
