"""Detection of pods that a Job counts twice or not at all."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.observer import Committed, Handled
from kcm.actors.simulation.invariants.workloads.jobs import EachPodCountsOnce, FinishedPodsAreCounted
from kcm.protocols.objects import Object, encode_object
from kcm.runtime.apiserver.storage.store import DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request, Response
from tests.actors.controllers.workloads.job.scene import KEY, job, pod

CLIENT = "job-controller"
INDEXED: Any = {"completionMode": "Indexed", "completions": 3}


def change(type_: str, storage: str, now: Object, before: Object | None = None, *, revision: int = 5) -> StoreChange:
    previous = b"" if before is None else encode_object(before)
    return StoreChange(type_, storage, f"default/{now['metadata']['name']}", revision, encode_object(now), previous)


def uncounted(*failed: str, counted: int = 0) -> Object:
    return job(status={"failed": counted, "uncountedTerminatedPods": {"failed": list(failed)}})


def found_by(invariant: Any, *changes: StoreChange) -> list[str]:
    texts: list[str] = []
    for change in changes:
        invariant.observe(Committed([change]), texts.append)
    return texts


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        ([uncounted(), uncounted("a"), uncounted(counted=1)], None),
        ([uncounted("a"), uncounted()], "failed rises by 0 instead of 1"),
        ([uncounted(), uncounted(counted=1)], "failed rises by 1 instead of 0"),
        ([uncounted("a"), uncounted(counted=1), uncounted("a", counted=1)], "['a'] would be counted again"),
        (
            [job(**INDEXED), job(**INDEXED, status={"succeeded": 2, "completedIndexes": "1"})],
            "2 succeeded, not 1",
        ),
    ],
)
def test_a_pod_that_is_counted_twice_or_never_is_found(statuses: list[Object], text: str | None) -> None:
    changes = [
        change(MODIFIED, "jobs.batch", now, before, revision=number)
        for number, (before, now) in enumerate(pairwise(statuses))
    ]
    found = found_by(EachPodCountsOnce(), *changes)
    assert found == ([] if text is None else [f"Job {KEY}: {text}"])


@pytest.mark.parametrize(("revision", "found"), [(3, False), (9, False), (10, True)])
def test_pods_counted_in_a_lost_revision_may_be_counted_again(revision: int, *, found: bool) -> None:
    # Pods counted in an earlier revision must not be counted again.
    invariant = EachPodCountsOnce()
    once = change(MODIFIED, "jobs.batch", uncounted(counted=1), uncounted("a"), revision=9)
    other = change(MODIFIED, "jobs.batch", uncounted(counted=1), uncounted(counted=1), revision=10)
    again = change(MODIFIED, "jobs.batch", uncounted("a"), uncounted(), revision=revision)
    assert bool(found_by(invariant, once, other, again)) is found


@pytest.mark.parametrize("client", [CLIENT, "somebody else"])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Running"])
@pytest.mark.parametrize(
    ("shown", "knows"),
    [
        (job(status={"uncountedTerminatedPods": {"succeeded": ["uid-of-a"]}}), ("Succeeded", "Failed")),
        (job(status={"uncountedTerminatedPods": {"failed": ["uid-of-a"]}}), ("Succeeded", "Failed")),
        (job(), ()),
        (job(**INDEXED, status={"completedIndexes": "1"}), ("Succeeded",)),
        (job(**INDEXED, status={"completedIndexes": "0,2"}), ()),
        (job(completionMode="Indexed", completions=1), ("Succeeded", "Failed")),
        (job(status={"conditions": [{"type": "FailureTarget", "status": "True"}]}), ("Succeeded", "Failed")),
        (None, ("Succeeded", "Failed")),
    ],
)
def test_an_end_that_its_job_does_not_know_of_is_found(
    shown: Object | None, knows: tuple[str, ...], phase: str, client: str
) -> None:
    cluster: Any = SimpleNamespace(get=lambda _resource, _key: shown)
    before, after = pod("a", phase, index=1), pod("a", phase, index=1, tracked=False)
    texts: list[str] = []
    for change_of in (change(MODIFIED, "pods", after, before), change(DELETED, "pods", before, before)):
        handled = Handled(
            "manager", client, Request(method="PATCH", path="/"), Response(status=200, body=b""), [change_of]
        )
        FinishedPodsAreCounted(cluster, client=CLIENT).observe(handled, texts.append)
    is_lost = client == CLIENT and phase != "Running" and phase not in knows
    assert texts == [f"pod default/a loses its finalizer, but Job {KEY} has not counted it"] * (2 if is_lost else 0)
