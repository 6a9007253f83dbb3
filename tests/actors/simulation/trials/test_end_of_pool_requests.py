"""Deletions of requests for the status of pools, as the trial checks them."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Handled
from kcm.actors.simulation.trials.devices.resource_pool_status import TRIAL, not_deleted_early
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log

STORAGE = "resourcepoolstatusrequests.resource.k8s.io"
HOUR = 3600.0
AHEAD = f"clock-jumped 1..2 seconds={HOUR:g} process=manager*"


def complete(now: float) -> Object:
    return {"conditions": [{"type": "Complete", "lastTransitionTime": format_time(now)}]}


@pytest.mark.parametrize(
    ("status_age", "age", "faults", "failures"),
    [
        (None, 10.0, "", 1),
        (None, 25 * HOUR, "", 0),
        (10.0, 10.0, "", 1),
        (10.0, 25 * HOUR, "", 1),
        # False alarm, seed 281130170024 of swarm: the clock was an hour behind when the status was written.
        (HOUR + 10.0, 10.0, "", 0),
        (10.0, 10.0, AHEAD, 0),
    ],
)
def test_request_may_be_deleted_from_its_expiry(
    status_age: float | None, age: float, faults: str, failures: int
) -> None:
    cluster = SimulatedCluster(log=quiet_log(), faults=parse_faults(faults))
    now = cluster.clock.now()
    request: dict[str, Any] = {"metadata": {"name": "request", "creationTimestamp": format_time(now - age)}}
    if status_age is not None:
        request["status"] = complete(now - status_age)
    found: list[str] = []
    raw = encode_object(request)
    handled = Handled(
        "manager",
        TRIAL.controller,
        Request(method="DELETE", path="/"),
        Response(status=200, body=b""),
        (StoreChange(DELETED, STORAGE, "request", 2, raw, raw),),
    )
    not_deleted_early(cluster).observe(handled, found.append)
    assert len(found) == failures
