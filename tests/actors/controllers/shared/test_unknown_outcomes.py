from __future__ import annotations

from typing import NamedTuple

import pytest

from kcm.actors.controllers.shared.pod_control import Creations, Deletions
from kcm.actors.controllers.shared.unknown_outcomes import UnknownOutcomes, is_current, raise_if_unknown
from kcm.actors.simulation.driver import Bench
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import Failure, Forbidden, Refused, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, REPLICASETS


class Pod(NamedTuple):
    uid: str


def failed(outcome: Failure) -> CommandError:
    return CommandError(Create(PODS.id, "default", b"{}"), outcome)


def owner(uid: str) -> Object:
    return {"metadata": {"name": "a", "namespace": "b", "uid": uid}}


def test_unchanged_owner_is_current() -> None:
    bench = Bench({REPLICASETS: [owner("1")]})
    owners = bench.tables[REPLICASETS]
    entry = owners.entry("b/a")
    assert entry is not None
    assert is_current(owners, entry)


@pytest.mark.parametrize("change", ["updated", "replaced", "deleted"])
def test_changed_owner_is_not_current(change: str) -> None:
    bench = Bench({REPLICASETS: [owner("1")]})
    owners = bench.tables[REPLICASETS]
    entry = owners.entry("b/a")
    assert entry is not None
    bench.hide(REPLICASETS, "b/a")
    if change != "deleted":
        bench.show(REPLICASETS, owner("1" if change == "updated" else "2"))
    assert not is_current(owners, entry)


@pytest.mark.parametrize("creations", [Creations(), Creations(failure=failed(Forbidden("quota")))])
def test_known_outcomes_do_not_end_the_sync(creations: Creations) -> None:
    raise_if_unknown(creations)


@pytest.mark.parametrize(
    "creations",
    [
        Creations(failure=failed(Unknown("cut")), maybe_created=["a-1"]),
        Creations(failure=failed(Forbidden("quota")), maybe_created=["a-1"]),
        Creations(failure=failed(Refused("lease lost"))),
    ],
)
def test_unknown_or_refused_creation_ends_the_sync(creations: Creations) -> None:
    with pytest.raises(CommandError):
        raise_if_unknown(creations)


def test_name_of_unknown_creation_is_retried_until_its_outcome_is_known() -> None:
    unknown = UnknownOutcomes[int]()
    unknown.record_creations(Creations(maybe_created=["a-1", "a-2", "a-3"]), [], {"a-1": 7, "a-2": 8})
    assert unknown.names_to_retry("b", taken=lambda _key: False) == {"a-1": 7, "a-2": 8, "a-3": None}
    unknown.record_creations(Creations(created=["b/a-1"]), ["b/a-3"])
    assert unknown.names_to_retry("b", taken=lambda _key: False) == {"a-2": 8}


def test_name_that_the_lister_shows_is_forgotten() -> None:
    unknown = UnknownOutcomes[None]()
    unknown.record_creations(Creations(maybe_created=["a-1", "a-2"]), [])
    assert unknown.names_to_retry("b", taken=lambda key: key == "b/a-1") == {"a-2": None}
    assert unknown.maybe_created == {"a-2": None}


def test_name_whose_retry_was_rejected_is_kept() -> None:
    unknown = UnknownOutcomes[None]()
    unknown.record_creations(Creations(maybe_created=["a-1"]), [])
    unknown.record_creations(Creations(failure=failed(Forbidden("quota"))), [])
    assert list(unknown.maybe_created) == ["a-1"]


def test_pod_with_unknown_deletion_comes_first_until_its_outcome_is_known() -> None:
    pods = [Pod("1"), Pod("2"), Pod("3")]
    unknown = UnknownOutcomes[None]()
    unknown.record_deletions(Deletions(maybe_deleted=["3", "2"]))
    assert [pod.uid for pod in unknown.maybe_deleted_first(pods)] == ["2", "3", "1"]
    unknown.record_deletions(Deletions(known=["2"]))
    assert [pod.uid for pod in unknown.maybe_deleted_first(pods)] == ["3", "1", "2"]
