"""Loss of a replica among three that share groups of controllers: no write without the Lease of the group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.group_rounds import FEW, KINDS, play, read_group_writes
from tests.e2e.leader_rounds import SHORT, USER, Write, judge

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def event(uri: str, *, user: str = "a", verb: str = "update", client: str = "", holder: str | None = None) -> str:
    body = {} if holder is None else {"requestObject": {"spec": {"holderIdentity": holder}}}
    return json.dumps(
        {
            "user": {"username": f"{USER}{user}"},
            "verb": verb,
            "requestURI": uri,
            "userAgent": f"kcm/v1 (linux/amd64) kubernetes/abc/{client}",
            "requestReceivedTimestamp": "2026-01-01T00:00:01.000000Z",
            "stageTimestamp": "2026-01-01T00:00:02.000000Z",
            "responseStatus": {"code": 200},
            **body,
        }
    )


def test_writes_are_assigned_to_groups_by_client_and_lease(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(
        "\n".join(
            (
                event("/api/v1/namespaces/d/pods", verb="create", client="job-controller"),
                event(f"{LEASES}/kube-controller-manager-group-jobs", client="leader-election", holder="x"),
                event(f"{LEASES}/kube-controller-manager", client="leader-election", holder="x"),
                event("/api/v1/namespaces/d/pods/p", verb="get", client="job-controller"),
                event("/api/v1/namespaces/d/pods/p", user="other", verb="delete", client="job-controller"),
            )
        )
    )
    found = read_group_writes(log, ["a"])
    assert {group: [(write.what.split()[0], write.holder) for write in writes] for group, writes in found.items()} == {
        "jobs": [("create", None), ("update", "x")]
    }


def test_write_after_another_replica_acquired_the_group_is_found() -> None:
    writes = [
        Write("a", 0.0, 0.1, "update lease", 200, "a-identity"),
        Write("a", 1.0, 1.1, "create pods", 201),
        Write("b", 5.0, 5.1, "update lease", 200, "b-identity"),
        Write("a", 5.2, 5.3, "create pods", 201),
    ]
    assert [write.received for write in judge(writes, duration=SHORT).deposed] == [5.2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_replica_writes_without_the_lease_of_the_group(tmp_path: Path) -> None:
    result = play(tmp_path, count=len(KINDS), seed=3, say=print, controllers=FEW)
    assert result.writes > 100
    assert result.without_lease == []
    for played in result.rounds:
        assert played.takeover <= (4.0 if played.kind == "stop" else SHORT + 4.0), played  # 2 s, and for a busy machine
