"""Rights that the API server denies to a controller: refusals, access reviews, and the controller's health check."""

from __future__ import annotations

import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller.rights import REFUSALS, REVIEW_INTERVAL, RequiredRight, Rights, review_of, right_of
from kcm.actors.reconciliation import Outcome, Reconciliation, Watch, itself, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, Unknown
from kcm.protocols.objects import Key, decode_object
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.apiserver.registry.users import Decision
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.serving.health import HealthNotice
from tests.support.objects import replica_set

NAME = "label-controller"
PATCH = Patch("apps/v1/replicasets", "default/web", b"{}", subresource="status")
RIGHT = RequiredRight("patch", "apps/v1/replicasets", "status", "default")
DENIED = Forbidden('User "jane" cannot patch resource "replicasets/status"')


@pytest.mark.parametrize(
    ("command", "right"),
    [
        (PATCH, RIGHT),
        (Create("v1/pods", "shop", b"{}"), RequiredRight("create", "v1/pods", "", "shop")),
        (Delete("v1/nodes", "n1"), RequiredRight("delete", "v1/nodes", "", "")),
        (Get("v1/nodes", "n1", as_informer=True), None),
        (Create("v1/pods", "shop", b"{}", user="jane"), None),
    ],
)
def test_command_requires_a_right_of_the_controllers_own_client(command: Command, right: RequiredRight | None) -> None:
    assert right_of(command) == right


def test_review_names_all_attributes_of_the_right() -> None:
    assert decode_object(review_of(RIGHT).body)["spec"] == {
        "resourceAttributes": {
            "verb": "patch",
            "group": "apps",
            "version": "v1",
            "resource": "replicasets",
            "subresource": "status",
            "namespace": "default",
        }
    }


def review(*, allowed: bool) -> Done:
    return Done(orjson.dumps({"status": {"allowed": allowed}}))


def test_right_is_denied_after_refusals_in_a_row_and_a_review() -> None:
    rights = Rights()
    reviewed = [rights.note(PATCH, DENIED, float(now)) for now in range(REFUSALS)]
    assert reviewed == [None, None, RIGHT]
    assert rights.begin_review(RIGHT, 7, 3.0) == review_of(RIGHT)
    assert list(rights.denied()) == [], "the review is in flight"
    assert rights.note(PATCH, DENIED, 4.0) is None, "it is reviewed once"
    assert rights.take_review(8, review(allowed=False)) is None, "another ticket"
    assert rights.take_review(7, review(allowed=False)) == RIGHT
    (denied,) = rights.denied()
    assert (denied.verb, denied.resource, denied.namespace) == ("patch", "replicasets.apps/status", "default")
    assert (denied.times, denied.since, denied.message) == (4, 0.0, DENIED.message)
    assert rights.denied_to_review(3.0 + REVIEW_INTERVAL - 1.0) == []
    assert rights.denied_to_review(3.0 + REVIEW_INTERVAL) == [RIGHT]
    rights.begin_review(RIGHT, 9, 63.0)
    assert rights.take_review(9, review(allowed=True)) is None
    assert list(rights.denied()) == [], "it was granted"


def test_permitted_request_ends_the_refusals() -> None:
    rights = Rights()
    for now in range(REFUSALS):
        rights.note(PATCH, DENIED, float(now))
    rights.begin_review(RIGHT, 7, 3.0)
    rights.take_review(7, review(allowed=False))
    rights.note(PATCH, Unknown(), 4.0)
    assert len(list(rights.denied())) == 1, "a lost response shows nothing"
    rights.note(PATCH, Conflict(), 5.0)
    assert rights.refused == {}


def test_refusals_of_admission_and_of_a_terminating_namespace_are_not_denied_rights() -> None:
    rights = Rights()
    for now in range(REFUSALS):
        rights.note(PATCH, Forbidden("exceeded quota"), float(now))
        rights.note(PATCH, Forbidden("no", b'{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}'), float(now))
    rights.begin_review(RIGHT, 7, 3.0)
    assert rights.take_review(7, review(allowed=True)) is None
    assert list(rights.denied()) == []
    assert rights.refused[RIGHT].times == REFUSALS


def test_invalid_credentials_count_as_denied_without_a_review() -> None:
    rights = Rights()
    for now in range(REFUSALS):
        assert rights.note(PATCH, Forbidden("Unauthorized", code=401), float(now)) is None
    assert [denied.message for denied in rights.denied()] == ["Unauthorized"]


class Labels:
    """Reconciler that ignores the outcome of its patch."""

    def reconcile(self, key: Key) -> Reconciliation:
        _: Outcome = yield patch(REPLICASETS, key, {"metadata": {"labels": {"seen": "yes"}}})
        return None


def test_check_and_log_name_a_denied_right_even_if_the_reconciler_ignores_it(
    log: FilteringBoundLogger, logs: LogCapture
) -> None:
    refused = "command-answered 0..100 resource=replicasets object=default/* process=manager status=403 most=6"
    cluster = SimulatedCluster(log=log, faults=parse_faults(refused))
    allowed: list[bool] = []
    cluster.authorize = lambda _access: Decision(bool(allowed))
    for number in range(4):
        cluster.create(REPLICASETS, replica_set(f"web{number}"))
    spec = ControllerSpec(
        name=NAME, queues=(Queue(watches=(Watch(REPLICASETS, to=itself),)),), build=lambda _context: Labels()
    )
    system = cluster.manager(controllers=[spec])
    cluster.run_for(30.0)
    found = system.checks()[NAME]()
    assert isinstance(found, HealthNotice)
    assert found.shown == "failing: cannot patch replicasets.apps"
    assert found.startswith("failing: cannot patch replicasets.apps in default, refused 4 times in ")
    (line,) = [entry for entry in logs.entries if entry["event"] == "API server denies a right to the controller"]
    assert (line["controller"], line["verb"], line["resource"]) == (NAME, "patch", "replicasets.apps")
    allowed.append(True)
    cluster.run_for(180.0)
    assert system.checks()[NAME]() is None, "it was reviewed again"
