"""Root CA publisher: upstream's cases, metrics, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/certificates/rootcacertpublisher/{publisher,metrics}_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.identity.root_ca_publisher import (
    ANNOTATION,
    DESCRIPTION,
    DURATION,
    SPEC,
    TOTAL,
    RootCaPublisher,
    new_or_active,
)
from kcm.actors.controllers.identity.sync_metrics import SyncMetrics, code_of
from kcm.actors.reconciliation import Change
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, bodies, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Update
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Failure,
    Forbidden,
    Gone,
    NotFound,
    Outcome,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import CONFIGMAPS, NAMESPACES
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics
from tests.actors.controllers.identity.objects import namespace

KEY = "default/kube-root-ca.crt"
AUTHORITY = "fake-root-ca"
TERMINATING = encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})


def published(data: Any = None, *, description: str | None = DESCRIPTION) -> Object:
    annotations = {} if description is None else {ANNOTATION: description}
    meta = {"name": "kube-root-ca.crt", "namespace": "default", "annotations": annotations}
    return {"metadata": meta, "data": {"ca.crt": AUTHORITY} if data is None else data}


class Scene:
    def __init__(self, *found: Object) -> None:
        self.bench, self.metrics = Bench({CONFIGMAPS: found}), Metrics()
        counting = SyncMetrics(self.metrics, self.bench.clock, total=TOTAL, duration=DURATION)
        self.reconciler = RootCaPublisher(
            tables=self.bench.tables, authority=AUTHORITY.encode(), metrics=counting, log=quiet_log()
        )

    def sync(self, answer: Any = None, *, raises: type[Exception] | None = None) -> list[Command]:
        answer = answer or self.bench.accept
        return drive(self.reconciler, "default", answer, tables=self.bench.tables, raises=raises).commands

    def counted(self, code: str) -> tuple[float, int]:
        histogram = self.metrics.histogram(DURATION, code)
        return self.metrics.counter(TOTAL, code).value, sum(histogram.counts)


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ([], Create),
        ([published()], None),
        ([published(description="in other words")], None),
        ([published(description=None)], Update),
        ([published(description="")], Update),
        ([published({"ca.crt": "other"})], Update),
        ([published({"ca.crt": AUTHORITY, "more": "x"})], Update),
        ([published({})], Update),
        ([{"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}}], Update),
    ],
)
def test_config_map_is_created_or_restored(found: list[Object], written: type[Command] | None) -> None:
    scene = Scene(*found)
    commands = scene.sync()
    assert [type(command) for command in commands] == ([] if written is None else [written])
    if written is not None:
        driven = Scene(*found)
        [body] = bodies(drive(driven.reconciler, "default", driven.bench.accept, tables=driven.bench.tables), written)
        assert body["data"] == {"ca.crt": AUTHORITY}
        assert body["metadata"]["annotations"][ANNOTATION] == DESCRIPTION
    assert scene.sync() == [], "although the watch is late"
    assert scene.counted("200") == (2.0, 2)


def test_other_metadata_is_kept() -> None:
    found = published({"ca.crt": "other"}, description=None)
    found["metadata"] |= {"labels": {"mine": "x"}, "annotations": {"mine": "y"}}
    scene = Scene(found)
    [body] = bodies(drive(scene.reconciler, "default", scene.bench.accept, tables=scene.bench.tables), Update)
    assert body["metadata"]["labels"] == {"mine": "x"}
    assert body["metadata"]["annotations"] == {"mine": "y", ANNOTATION: DESCRIPTION}


@pytest.mark.parametrize(
    ("outcome", "fails", "code"),
    [
        (NotFound("no such namespace"), False, "200"),
        (Forbidden("ending", status=TERMINATING), False, "200"),
        (AlreadyExists("there"), True, "409"),
        (Forbidden("not allowed"), True, "403"),
        (ServerFailure("x", code=503), True, "503"),
    ],
)
def test_creation_fails_unless_the_namespace_is_missing_or_terminating(
    outcome: Outcome, fails: bool, code: str
) -> None:
    scene = Scene()
    scene.sync(lambda _command: outcome, raises=CommandError if fails else None)
    assert scene.counted(code) == (1.0, 1)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (NotFound(), 404),
        (AlreadyExists(), 409),
        (Conflict(), 409),
        (Gone(), 410),
        (Throttled(), 429),
        (Forbidden(code=401), 401),
        (ServerFailure(code=504), 504),
        (Unknown(), 500),
    ],
)
def test_failed_sync_is_counted_by_status_code(failure: Failure, code: int) -> None:
    assert code_of(failure) == code


def test_abandoned_sync_is_not_counted() -> None:
    scene = Scene()
    drive(scene.reconciler, "default", scene.bench.accept, tables=scene.bench.tables, stop_after=1)
    assert [family.name for family, _ in scene.metrics.collect()] == []


@pytest.mark.parametrize(
    ("type_", "phase", "woken"),
    [
        (EventType.ADDED, "Active", True),
        (EventType.ADDED, "Terminating", True),
        (EventType.MODIFIED, "Active", True),
        (EventType.MODIFIED, "Terminating", False),
        (EventType.DELETED, "Active", False),
    ],
)
def test_namespace_is_enqueued_when_added_or_active(type_: str, phase: str, woken: bool) -> None:
    change = Change(type=type_, key="shop", raw=encode_object(namespace("shop", phase)), controller=None)
    assert list(new_or_active(change, Scene().bench.tables)) == (["shop"] if woken else [])


def test_changed_or_deleted_config_map_is_restored_in_a_cluster(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.create(NAMESPACES, {"metadata": {"name": "shop"}})
    cluster.run_for(5.0)
    assert len(cluster.list(CONFIGMAPS)) == 5
    before = cluster.get(CONFIGMAPS, "shop/kube-root-ca.crt")
    assert before is not None
    cluster.merge(CONFIGMAPS, "shop/kube-root-ca.crt", {"data": {"ca.crt": "other"}})
    cluster.run_for(5.0)
    restored = cluster.get(CONFIGMAPS, "shop/kube-root-ca.crt")
    assert restored is not None
    assert restored["data"] == before["data"]
    cluster.delete(CONFIGMAPS, "shop/kube-root-ca.crt")
    cluster.run_for(5.0)
    again = cluster.get(CONFIGMAPS, "shop/kube-root-ca.crt")
    assert again is not None
    assert again["data"] == before["data"]
