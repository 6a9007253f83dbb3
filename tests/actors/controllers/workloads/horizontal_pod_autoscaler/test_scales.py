"""Updates of scales, with conflicts and unknown outcomes.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestScaleUpWithConflict and the like).
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.scales import (
    ScaleClient,
    ScaleError,
    TargetScale,
    UnknownOutcomeError,
)
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.spec import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.commands import Get, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS

STATUS = b'{"kind": "Status"}'
NEWER = Conflict("newer", STATUS)


def body(replicas: int, version: str = "1") -> Object:
    return {"metadata": {"name": "web", "resourceVersion": version}, "spec": {"replicas": replicas}}


def is_at(replicas: int, version: str = "2") -> Done:
    return Done(orjson.dumps(body(replicas, version)))


def written(outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
    """Return the versions and sizes that are written while a target is scaled from 3 to 5."""
    scale = TargetScale(DEPLOYMENTS, "default/web", body(3), wanted=3, reported=3, selector="app=web")
    writing = ScaleClient(served=ServedKinds()).write(scale, 5)
    command, found = next(writing), []
    for outcome in outcomes:
        assert isinstance(command, Get | Update)
        assert command.subresource == "scale"
        if isinstance(command, Update):
            sent = decode_object(command.body)
            found.append((sent["metadata"]["resourceVersion"], sent["spec"]["replicas"]))
        try:
            command = writing.send(outcome)
        except StopIteration:
            break
    return found


@pytest.mark.parametrize(
    ("outcomes", "sent"),
    [
        ([is_at(5)], [("1", 5)]),
        ([NEWER, is_at(3), is_at(5)], [("1", 5), ("2", 5)]),
        ([Unknown("timed out"), is_at(5)], [("1", 5)]),
    ],
)
def test_size_is_written_once(outcomes: list[Outcome], sent: list[tuple[str, int]]) -> None:
    assert written(outcomes) == sent


@pytest.mark.parametrize(
    ("outcomes", "error", "text"),
    [
        ([NEWER, is_at(0)], ScaleError, "newer"),  # another client changed it meanwhile
        ([NEWER, is_at(3)] * 5, ScaleError, "newer"),
        ([Unknown("timed out"), is_at(3)], UnknownOutcomeError, "timed out"),
        ([Unknown("timed out"), Unknown("again")], UnknownOutcomeError, "timed out"),
        ([Forbidden("no", STATUS), is_at(3)], ScaleError, "no"),
        (
            [NotFound("HTTP 404", b"404 page not found"), NotFound()],
            ScaleError,
            "the server could not find the requested resource .put deployments web.",
        ),
    ],
)
def test_scale_error_contains_the_cause(outcomes: list[Outcome], error: type[ScaleError], text: str) -> None:
    with pytest.raises(error, match=text):
        written(outcomes)


def test_unserved_kind_causes_no_additional_discovery(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(30.0)
    before = len(cluster.transport.requests)
    reference = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "x"}
    spec = {"maxReplicas": 3, "scaleTargetRef": reference}
    cluster.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "h"}, "spec": spec})
    cluster.run_for(120.0)
    sent = [request for _, client, request in cluster.transport.requests[before:] if client == SPEC.client]
    assert sent
    assert all("/events" in request.path or request.path.endswith("/h/status") for request in sent)
    discovery = [request.path for _, _, request in cluster.transport.requests[before:] if request.path == "/apis"]
    assert len(discovery) == 12, "every 10 s, for any target of the autoscaler"
