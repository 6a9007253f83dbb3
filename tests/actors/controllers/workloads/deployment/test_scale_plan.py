from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.deployment.objects import ReplicaSet, parse_replica_set
from kcm.actors.controllers.workloads.deployment.plans import (
    Resize,
    active_or_latest,
    fraction,
    is_saturated,
    is_scaling_event,
    resized,
    scale_plan,
)
from kcm.protocols.objects import Object, annotations_of
from tests.actors.controllers.workloads.deployment.objects import (
    RECREATE,
    parsed_deployment,
    parsed_replica_set,
    with_available,
)

DESIRED, MAX = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"


def sizes_after(plan: Sequence[Resize], sets: Sequence[ReplicaSet]) -> Object:
    return {each.name: each.replicas for each in sets} | dict(plan)


def sets_of(sizes: Object, *, sized_for: tuple[int, ...]) -> list[ReplicaSet]:
    """Return ReplicaSets of these sizes by name, the youngest first."""
    return [
        with_available(name, size, size, age=position * 3600, sized_for=sized_for)
        for position, (name, size) in enumerate(sizes.items())
    ]


@pytest.mark.parametrize(
    "before, after, new, old, sizes",
    [
        (10, 12, {"v1": 10}, {}, {"v1": 12}),
        (10, 5, {"v1": 10}, {}, {"v1": 5}),
        (5, 10, {"v2": 2}, {"v1": 3}, {"v2": 4, "v1": 6}),
        (5, 3, {"v2": 2}, {"v1": 3}, {"v2": 1, "v1": 2}),
        (9, 4, {"v2": 8}, {"v1": 1}, {"v2": 4, "v1": 0}),
        (7, 10, {"v3": 2}, {"v2": 3, "v1": 2}, {"v3": 3, "v2": 4, "v1": 3}),
        (13, 8, {"v3": 2}, {"v2": 8, "v1": 3}, {"v3": 1, "v2": 5, "v1": 2}),
        (3, 4, {"v3": 1}, {"v2": 1, "v1": 1}, {"v3": 2, "v2": 1, "v1": 1}),  # the remainder goes to the newest
        (3, 2, {"v3": 1}, {"v2": 1, "v1": 1}, {"v3": 1, "v2": 1, "v1": 0}),  # the remainder is taken from the oldest
        (4, 5, {}, {"v2": 2, "v1": 2}, {"v2": 3, "v1": 2}),
        (6, 0, {"v3": 3}, {"v2": 2, "v1": 1}, {"v3": 0, "v2": 0, "v1": 0}),
        (6, 6, {"v3": 0}, {"v2": 0, "v1": 0}, {"v3": 6, "v2": 0, "v1": 0}),
        (6, 6, {}, {"v2": 0, "v1": 0}, {"v2": 6, "v1": 0}),
        (10, 14, {}, {"v2": 7, "v1": 3}, {"v2": 10, "v1": 4}),  # size and template were changed together
    ],
)
def test_new_size_is_distributed_in_proportion(
    before: int, after: int, new: Object, old: Object, sizes: Object
) -> None:
    sets = sets_of({**new, **old}, sized_for=(before, before))
    the_new, the_old = (sets[0], sets[1:]) if new else (None, sets)
    assert sizes_after(scale_plan(parsed_deployment(after), the_new, the_old), sets) == sizes


@pytest.mark.parametrize(
    "before, surge_before, after, surge_after, sizes, wanted",
    [
        (10, 2, 20, 2, {"v2": 6, "v1": 6}, {"v2": 11, "v1": 11}),
        (10, 3, 50, 6, {"v2": 5, "v1": 8}, {"v2": 22, "v1": 34}),
        (6, 2, 0, 2, {"v2": 3, "v1": 3}, {"v2": 0, "v1": 0}),  # no surge at size 0
    ],
)
def test_surge_is_distributed_too(
    before: int, surge_before: int, after: int, surge_after: int, sizes: Object, wanted: Object
) -> None:
    new, old = sets_of(sizes, sized_for=(before, before + surge_before))
    plan = scale_plan(parsed_deployment(after, max_surge=surge_after), new, [old])
    assert sizes_after(plan, [new, old]) == wanted


def test_interrupted_scaling_is_completed() -> None:
    new = with_available("v3", 2, 2, sized_for=(5, 5))
    middle = with_available("v2", 1, 1, age=1, sized_for=(3, 3))
    oldest = with_available("v1", 1, 1, age=2, sized_for=(5, 5))
    assert is_scaling_event(parsed_deployment(5), [oldest, middle, new])
    assert sizes_after(scale_plan(parsed_deployment(5), new, [oldest, middle]), [new, middle, oldest]) == {
        "v3": 2,
        "v2": 2,
        "v1": 1,
    }


def test_rounding_remainder_never_makes_a_size_negative() -> None:
    """Invalid annotations give no shares, so the whole change is a remainder."""
    sets = sets_of({"v2": 2, "v1": 2}, sized_for=(0, 0))
    assert sizes_after(scale_plan(parsed_deployment(1, max_unavailable=1), None, sets), sets) == {"v2": 2, "v1": 0}


def test_unavailable_new_replica_set_keeps_old_pods() -> None:
    new = with_available("v2", 2, 0, sized_for=(2, 3))
    old = with_available("v1", 1, 1, age=1, sized_for=(2, 3))
    plan = scale_plan(parsed_deployment(2, max_surge=1, max_unavailable=1), new, [old])
    assert sizes_after(plan, [new, old]) == {"v2": 2, "v1": 1}


def test_saturated_new_replica_set_replaces_all_old_ones() -> None:
    new = with_available("v2", 2, 2, sized_for=(2, 2))
    old = [with_available("v1", 1, 1, age=1), with_available("v0", 0, 0, age=2)]
    assert scale_plan(parsed_deployment(2), new, old) == [Resize("v1", 0)]


def test_recreate_keeps_sizes_and_refreshes_annotations() -> None:
    """The strategy was changed during a rolling update, and then the size: several ReplicaSets have pods."""
    sized_for = (6, 8)
    sets = {
        "v2": with_available("v2", 1, 0, sized_for=sized_for),
        "v1": with_available("v1", 5, 5, age=1, sized_for=sized_for),
    }
    smaller = parsed_deployment(3, strategy=RECREATE)
    assert is_scaling_event(smaller, sets.values())
    plan = scale_plan(smaller, sets["v2"], [sets["v1"]])
    assert dict(plan) == {"v2": 1, "v1": 5}
    annotated = [resized(sets[name], size, smaller) for name, size in plan]
    assert not is_scaling_event(smaller, [parse_replica_set(each) for each in annotated if each is not None])


def test_only_replica_set_is_annotated_even_if_its_size_is_right() -> None:
    """A rollout without surge removes one old pod before the first new one is created, and the size is then reduced by
    one: the old ReplicaSet has the new size, but the annotation of the previous one.
    """
    old, new = with_available("v1", 2, 2, age=1, sized_for=(3, 3)), with_available("v2", 0, 0, sized_for=(3, 3))
    smaller = parsed_deployment(2, max_surge=0, max_unavailable=1)
    assert is_scaling_event(smaller, [old, new])
    [(name, size)] = scale_plan(smaller, new, [old])
    noted = resized(old, size, smaller)
    assert name == "v1"
    assert noted is not None
    assert not is_scaling_event(smaller, [parse_replica_set(noted), new])


def test_every_share_is_written_to_refresh_the_annotations() -> None:
    new, old = sets_of({"v2": 3, "v1": 3}, sized_for=(6, 6))
    plan = scale_plan(parsed_deployment(5, max_surge=1), new, [old])
    assert sorted(plan) == [("v1", 3), ("v2", 3)]
    refreshed = resized(new, 3, parsed_deployment(5, max_surge=1))
    assert annotations_of(refreshed) == {DESIRED: "5", MAX: "6"}


@pytest.mark.parametrize(
    "desired, status, surge, size, annotation, change",
    [
        (0, 0, 0, 10, None, -10),
        (10, 0, 0, 5, None, 0),
        (10, 0, 0, 5, "0", 0),
        (120, 100, 0, 50, None, 10),
        (120, 100, 0, 50, "0", 10),
        (120, 100, 0, 50, "many", 10),
        (120, 0, 0, 50, "100", 10),
        (120, 0, 10, 50, "110", 9),
        (10, 0, 0, 6, "12", -1),
        (100, 0, 10, 50, "130", -8),
        (5, 0, 0, 1, "2", 2),  # 2.5 is rounded away from zero
    ],
)
def test_replica_set_keeps_its_fraction_of_the_maximum(
    desired: int, status: int, surge: int, size: int, annotation: str | None, change: int
) -> None:
    annotations = {} if annotation is None else {MAX: annotation}
    d = parsed_deployment(desired, max_surge=surge, max_unavailable=1, status={"replicas": status})
    assert fraction(parsed_replica_set("v1", size, annotations=annotations), d) == change


@pytest.mark.parametrize(
    "annotation, size, event",
    [("10", 3, False), ("9", 3, True), ("9", 0, False), ("9x", 3, False), ("-9", 3, False), ("", 3, False)],
)
def test_scaling_is_detected_by_the_annotation_of_a_replica_set_with_pods(
    annotation: str, size: int, event: bool
) -> None:
    assert (
        is_scaling_event(parsed_deployment(10), [parsed_replica_set("v1", size, annotations={DESIRED: annotation})])
        is event
    )


@pytest.mark.parametrize("annotation", ["2147483648", "99999999999999999999999", "+3", "3.0"])
def test_annotation_beyond_int32_is_ignored(annotation: str) -> None:
    assert not is_scaling_event(parsed_deployment(10), [parsed_replica_set("v1", 3, annotations={DESIRED: annotation})])


def test_only_replica_set_with_pods_or_the_latest_is_scaled() -> None:
    young, old, oldest = (parsed_replica_set(f"v{age}", age=age) for age in (1, 2, 3))
    assert active_or_latest(None, []) is None
    assert active_or_latest(None, [oldest, young, old]) is young
    assert active_or_latest(oldest, [young, old]) is oldest
    only = parsed_replica_set("v9", 1, age=9)
    assert active_or_latest(young, [only, old]) is only
    assert active_or_latest(parsed_replica_set("v8", 1), [only, old]) is None


@pytest.mark.parametrize(
    "size, sized_for, available, saturated",
    [(3, "3", 3, True), (2, "3", 3, False), (3, "2", 3, False), (3, "3", 2, False), (3, "", 3, False)],
)
def test_saturated_replica_set_is_full_annotated_and_available(
    size: int, sized_for: str, available: int, saturated: bool
) -> None:
    new = parsed_replica_set("v1", size, annotations={DESIRED: sized_for}, status={"availableReplicas": available})
    assert is_saturated(parsed_deployment(3), new) is saturated
    assert not is_saturated(parsed_deployment(3), None)


def test_unchanged_size_with_annotation_is_not_written() -> None:
    d = parsed_deployment(3, max_surge=1)
    assert resized(parsed_replica_set("v1", 3, sized_for=(3, 4)), 3, d) is None
    assert resized(parsed_replica_set("v1", 2, sized_for=(3, 4)), 3, d)["spec"]["replicas"] == 3
    assert annotations_of(resized(parsed_replica_set("v1", 3, sized_for=(3, 3)), 3, d))[MAX] == "4"


@given(st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(1, 120), st.integers(0, 20))
@example(sizes=[1, 1, 1, 1], after=1, surge=1)
def test_proportional_scaling_ends_exactly_at_the_size_that_is_allowed(
    sizes: Sequence[int], after: int, surge: int
) -> None:
    """A rounding remainder may exceed the size of the set that should give it, as upstream."""
    sets = sets_of({f"v{9 - i}": size for i, size in enumerate(sizes)}, sized_for=(sum(sizes), sum(sizes)))
    d = parsed_deployment(after, max_surge=surge, max_unavailable=1)
    planned = sizes_after(scale_plan(d, None, sets), sets)
    assert min(planned.values()) >= 0
    left = sum(planned.values()) - after - d.max_surge
    assert left == 0 or (0 < left < len(sizes) and 0 in planned.values())


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=5),
    st.integers(0, 80),
    st.integers(0, 20),
    st.integers(0, 400),
)
def test_growth_reaches_the_allowed_size_with_any_annotations(
    sizes: Sequence[int], more: int, surge: int, before: int
) -> None:
    sets = sets_of({f"v{9 - i}": size for i, size in enumerate(sizes)}, sized_for=(before, before))
    d = parsed_deployment(sum(sizes) + more, max_surge=surge, max_unavailable=1)
    planned = sizes_after(scale_plan(d, None, sets), sets)
    assert min(planned.values()) >= 0
    assert sum(planned.values()) == sum(sizes) + more + d.max_surge
