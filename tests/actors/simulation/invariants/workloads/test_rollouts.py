"""Maximum and minimum number of pods in a rollout."""

from __future__ import annotations

import pytest

from kcm.actors.simulation.invariants.workloads.rollouts import Bounds, RolloutView, Size, bounds_of, size_of
from kcm.protocols.objects import Object
from kcm.protocols.percentages import IntOrString
from tests.support.objects import deployment


def rolling(replicas: int, surge: IntOrString, unavailable: IntOrString, type: str = "RollingUpdate") -> Object:
    bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
    return deployment(replicas=replicas, spec={"strategy": {"type": type, "rollingUpdate": bounds}})


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "bounds"),
    [
        (10, 2, 3, Bounds(12, 7)),
        (10, "39%", "39%", Bounds(14, 7)),
        (1, "25%", "25%", Bounds(2, 1)),
        (10, 0, 0, Bounds(10, 9)),
        (10, 0, "1%", Bounds(10, 9)),
        (3, 0, 5, Bounds(3, 0)),
        (0, 2, 0, Bounds(0, 0)),
    ],
)
def test_surge_is_rounded_up_and_what_may_be_missing_down(
    replicas: int, surge: int | str, unavailable: int | str, bounds: Bounds
) -> None:
    assert bounds_of(rolling(replicas, surge, unavailable)) == bounds


def test_recreate_has_no_surge_and_promises_nothing() -> None:
    assert bounds_of(rolling(3, 1, 0, type="Recreate")) == Bounds(3, 0)


def test_more_pods_than_are_wanted_are_not_available() -> None:
    assert size_of({"spec": {"replicas": 2}, "status": {"availableReplicas": 3}}) == Size(2, 2)
    assert size_of({"spec": {}}) == Size(1, 0)


@pytest.mark.parametrize(
    ("uid", "wanted", "objection"),
    [
        ("new", 2, ""),
        ("new", 3, "total size 6 exceeds 5"),
        ("new", 0, ""),  # it has none that is available
        ("old", 2, "2 available pods remain instead of 3"),
        ("unheard of", 2, "total size 6 exceeds 5"),
    ],
)
def test_growing_is_bounded_above_and_shrinking_below(uid: str, wanted: int, objection: str) -> None:
    view = RolloutView(Bounds(5, 3), {"old": Size(3, 3), "new": Size(1, 0)})
    assert view.objection(uid, Size(wanted, 0)) == objection


@pytest.mark.parametrize(
    ("known", "noted", "objection"),
    [
        ("4", "3", ""),
        ("3", "3", "2 available pods remain instead of 3"),
        ("", "3", "2 available pods remain instead of 3"),
    ],
    ids=["for another size", "for the same size", "for the first time"],
)
def test_a_deployment_that_changes_its_size_keeps_shares_and_not_what_is_available(
    known: str, noted: str, objection: str
) -> None:
    view = RolloutView(Bounds(4, 3), {"old": Size(3, 3, known), "new": Size(1, 0, known)})
    assert view.objection("old", Size(2, 2, noted)) == objection


def test_removing_unavailable_pods_is_permitted() -> None:
    view = RolloutView(Bounds(5, 3), {"old": Size(3, 1), "new": Size(2, 1)})
    assert view.objection("old", Size(1, 1)) == ""
    assert view.objection("old", Size(0, 0)) == "1 available pods remain instead of 3"


def test_oversized_deployment_may_stay_or_shrink() -> None:
    view = RolloutView(Bounds(4, 0), {"old": Size(3, 3), "new": Size(3, 3)})
    assert [view.objection("new", Size(wanted, 0)) != "" for wanted in (2, 3, 4)] == [False, False, True]
