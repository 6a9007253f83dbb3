"""Evaluation of interests before and after a change, one by one and in an index of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.messages.watches import EVERYTHING, ORPHANS, EventType, Interest
from kcm.protocols.objects import OwnerRef
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.interests import InterestIndex, Transition, meets

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


@dataclass(frozen=True)
class Facts:
    node: str
    ready: bool


def entry(
    *,
    uid: str = "u",
    owner: str = "",
    node: str = "",
    ready: bool = False,
    finalizers: tuple[str, ...] = (),
    facts: bool = True,
    further: tuple[tuple[str, str], ...] = (),
) -> Entry:
    return Entry(
        key="d/a",
        uid=uid,
        resource_version=1,
        raw=b"{}",
        controller=OwnerRef("apps/v1", owner, "owner", f"uid-{owner}") if owner else None,
        facts=Facts(node, ready) if facts else None,
        values=(("node", node), ("namespace", "d"), *further),
        finalizers=finalizers,
    )


PLAIN = entry()


@pytest.mark.parametrize(
    "interest, change, met",
    [
        (EVERYTHING, (ADDED, PLAIN, None), True),
        (Interest(types=(DELETED,)), (DELETED, PLAIN, PLAIN), True),
        (Interest(types=(DELETED,)), (MODIFIED, PLAIN, PLAIN), False),
        (Interest(types=(DELETED,)), (MODIFIED, entry(uid="other"), PLAIN), True),
        (Interest(owner_kinds=("Job",)), (ADDED, entry(owner="Job"), None), True),
        (Interest(owner_kinds=("Job",)), (ADDED, entry(owner="ReplicaSet"), None), False),
        (Interest(owner_kinds=("Job",)), (ADDED, PLAIN, None), False),
        (Interest(owner_kinds=("Job",)), (MODIFIED, PLAIN, entry(owner="Job")), True),
        (Interest(owner_kinds=("Job",)), (MODIFIED, entry(owner="Job"), PLAIN), True),
        (Interest(owner_kinds=("Job",)), (DELETED, PLAIN, entry(owner="Job")), True),
        (Interest(owner_kinds=(ORPHANS,)), (ADDED, PLAIN, None), True),
        (Interest(owner_kinds=(ORPHANS,)), (ADDED, entry(owner="Job"), None), False),
        (Interest(owner_kinds=(ORPHANS, "Job")), (ADDED, entry(owner="Job"), None), True),
        (Interest(changed=("node",)), (ADDED, PLAIN, None), True),
        (Interest(changed=("node",)), (DELETED, PLAIN, PLAIN), True),
        (Interest(changed=("node",)), (MODIFIED, entry(ready=True), PLAIN), False),
        (Interest(changed=("node", "ready")), (MODIFIED, entry(ready=True), PLAIN), True),
        (Interest(changed=("node",)), (MODIFIED, entry(node="n1"), PLAIN), True),
        (Interest(changed=("node",)), (MODIFIED, entry(owner="Job"), PLAIN), True),
        (Interest(changed=("node",)), (MODIFIED, entry(uid="other"), PLAIN), True),
        (Interest(changed=("no fact",)), (MODIFIED, entry(), PLAIN), True),
        (Interest(changed=("node",)), (MODIFIED, entry(facts=False), entry(facts=False)), True),
        (Interest(owners=True), (ADDED, PLAIN, None), True),
        (Interest(owners=True), (DELETED, PLAIN, PLAIN), True),
        (Interest(owners=True), (MODIFIED, entry(node="n1"), PLAIN), False),
        (Interest(owners=True), (MODIFIED, entry(uid="other"), PLAIN), True),
        (Interest(owners=True), (MODIFIED, entry(further=(("further owner", "u1"),)), PLAIN), True),
        (Interest(owners=True), (MODIFIED, PLAIN, entry(further=(("unblocked owner", "u1"),))), True),
        (Interest(owners=True, types=(MODIFIED,)), (ADDED, PLAIN, None), False),
        (Interest(having=(("node", ("n1", "n2")),)), (ADDED, entry(node="n2"), None), True),
        (Interest(having=(("node", ("n1", "n2")),)), (MODIFIED, entry(node="n3"), entry(node="n1")), True),
        (Interest(having=(("node", ("n1", "n2")),)), (ADDED, entry(node="n3"), None), False),
        (Interest(having=(("node", ("n1",)), ("ready", (True,)))), (ADDED, entry(node="n1"), None), False),
        (Interest(having=(("node", ("n1",)), ("ready", (True,)))), (ADDED, entry(node="n1", ready=True), None), True),
        (Interest(filled=("node",)), (ADDED, entry(node="n1"), None), True),
        (Interest(filled=("node",)), (ADDED, PLAIN, None), False),
        (Interest(filled=("node",)), (MODIFIED, PLAIN, entry(node="n1")), True),
        (Interest(filled=("node",)), (DELETED, PLAIN, entry(node="n1")), True),
        (Interest(filled=("node", "ready")), (ADDED, entry(node="n1"), None), False),
        (Interest(filled=("node",)), (ADDED, entry(facts=False), None), False),
        (Interest(filled=("node",), changed=("ready",)), (MODIFIED, entry(node="n1"), entry(node="n1")), False),
        (Interest(finalizers=("f", "g")), (ADDED, entry(finalizers=("x", "g")), None), True),
        (Interest(finalizers=("f", "g")), (ADDED, entry(finalizers=("x",)), None), False),
        (Interest(finalizers=("f",)), (MODIFIED, PLAIN, entry(finalizers=("f",))), True),
        (Interest(indexed=(("node", "n1"),)), (ADDED, entry(node="n1"), None), True),
        (Interest(indexed=(("node", "n1"),)), (MODIFIED, entry(node="n2"), entry(node="n1")), True),
        (Interest(indexed=(("node", "n1"),)), (ADDED, entry(node="n2"), None), False),
        (Interest(indexed=(("namespace", "d"),), owner_kinds=("Job",)), (ADDED, PLAIN, None), False),
        (Interest(indexed=(("namespace", "d"),), owner_kinds=("Job",)), (ADDED, entry(owner="Job"), None), True),
    ],
)
def test_change_matches_an_interest(interest: Interest, change: tuple[Any, ...], met: bool) -> None:
    assert meets(Transition(*change), interest) is met
    assert InterestIndex({"one": (interest,)}).concerned(*change) == ({"one": 1} if met else {})


def some(*values: Any) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


interests = st.builds(
    Interest,
    types=some(ADDED, DELETED),
    owner_kinds=some("Job", "ReplicaSet", ORPHANS),
    changed=some("node", "ready", "unknown"),
    having=some(("node", ("n1", "")), ("ready", (True,))),
    finalizers=some("f", "g"),
    filled=some("node", "ready"),
    indexed=some(("node", "n1"), ("namespace", "d"), ("namespace", "e")),
)
entries = st.builds(
    entry,
    uid=st.sampled_from(("u", "v")),
    owner=st.sampled_from(("", "Job", "ReplicaSet")),
    node=st.sampled_from(("", "n1", "n2")),
    ready=st.booleans(),
    finalizers=some("f", "g", "h"),
)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(interests, max_size=3)),
    st.sampled_from(EventType),
    entries,
    st.one_of(st.none(), entries),
)
def test_index_matches_the_same_interests_as_single_evaluation(
    subscriptions: dict[str, list[Interest]], type: EventType, new: Entry, old: Entry | None
) -> None:
    expected = {}
    for subscriber, interests in subscriptions.items():
        matches = sum(1 << i for i, interest in enumerate(interests) if meets(Transition(type, new, old), interest))
        if matches:
            expected[subscriber] = matches
    assert InterestIndex(subscriptions).concerned(type, new, old) == expected


def test_equal_interests_are_evaluated_once_and_irrelevant_ones_not_at_all() -> None:
    kinds = [Interest(owner_kinds=(f"Kind{i}",), changed=("node",)) for i in range(100)]
    index = InterestIndex({f"controller {i}": (interest, interest) for i, interest in enumerate(kinds)})
    evaluated: list[str] = []

    class Watched(Transition):
        def has_changed(self, fact: str) -> bool:
            evaluated.append(fact)
            return super().has_changed(fact)

    change = Watched(MODIFIED, entry(owner="Kind7", node="n1"), entry(owner="Kind7"))
    assert index.concerned_by(change) == {"controller 7": 0b11}
    assert evaluated == ["node"]


def test_interest_with_a_string_instead_of_a_tuple_is_an_error() -> None:
    with pytest.raises(TypeError, match="owner_kinds of an Interest: expected a tuple, got 'Job'"):
        Interest(owner_kinds="Job")  # type: ignore[arg-type]
