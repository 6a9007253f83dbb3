from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.actors.hollow.nodes.addresses import AddressBook, addresses_at, offset_of, pod_ranges

V4, V6 = "10.244.1.0/24", "fd00:1::/64"


def opened(held: Sequence[tuple[Any, ...]] = ()) -> AddressBook:
    book = AddressBook()
    book.open("n1", held)
    return book


def test_an_offset_is_an_address_in_each_of_the_nodes_ranges() -> None:
    assert addresses_at(pod_ranges((V4, V6)), 7) == ["10.244.1.7", "fd00:1::7"]


@pytest.mark.parametrize(
    "address, offset",
    [("10.244.1.7", 7), ("fd00:1::a", 10), ("10.244.2.7", None), ("", None), ("nonsense", None)],
)
def test_offset_of_an_address_can_be_recovered(address: str, offset: int | None) -> None:
    assert offset_of(pod_ranges((V4, V6)), address) == offset


def test_a_pod_keeps_its_offset() -> None:
    book = opened()
    first = book.assign("default/a", "uid-a", "n1", size=256)
    book.assign("default/b", "uid-b", "n1", size=256)
    assert book.assign("default/a", "uid-a", "n1", size=256) == first


def test_pod_of_the_same_name_gets_another_address() -> None:
    book = opened()
    first = book.assign("default/a", "uid-1", "n1", size=5)
    second = book.assign("default/a", "uid-2", "n1", size=5)
    assert second != first
    assert book.assign("default/b", "uid-b", "n1", size=5) == first


def test_assigned_addresses_are_not_assigned_again() -> None:
    book = opened([("default/a", "uid-a", 2), ("default/b", "uid-b", 3)])
    assert book.assign("default/c", "uid-c", "n1", size=256) == 4
    assert book.assign("default/a", "uid-a", "n1", size=256) == 2


def test_address_claimed_by_two_pods_is_released_once() -> None:
    book = opened([("default/a", "uid-a", 2), ("default/b", "uid-b", 2)])
    book.release("default/b")
    assert book.assign("default/c", "uid-c", "n1", size=5) == 3
    assert book.assign("default/d", "uid-d", "n1", size=6) == 4


def test_released_address_is_assigned_last() -> None:
    book = opened()
    assert [book.assign(f"default/{name}", name, "n1", size=6) for name in "ab"] == [2, 3]
    book.release("default/a")
    assert [book.assign(f"default/{name}", name, "n1", size=6) for name in "cd"] == [4, 2]


def test_a_full_range_is_an_error_that_names_pod_and_node() -> None:
    book = opened()
    for name in "ab":
        book.assign(f"default/{name}", name, "n1", size=5)
    with pytest.raises(ValueError, match=r"no free address for pod default/c on node n1: all 2 are taken"):
        book.assign("default/c", "c", "n1", size=5)


def test_releasing_an_unknown_pod_does_nothing() -> None:
    book = opened([("default/a", "uid-a", 2)])
    book.release("default/b")
    assert book.assign("default/a", "uid-a", "n1", size=256) == 2


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_two_pods_never_have_the_same_address(steps: Sequence[tuple[int, ...]]) -> None:
    book, held = opened(), {}
    for take, number in steps:
        pod = f"default/{number}"
        if take:
            held[pod] = book.assign(pod, pod, "n1", size=13)
        else:
            book.release(pod)
            held.pop(pod, None)
        assert len(set(held.values())) == len(held)
        assert all(2 <= offset < 12 for offset in held.values())
