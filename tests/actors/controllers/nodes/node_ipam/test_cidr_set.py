"""Tests of CidrSet: indexes of blocks, allocation and release."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.actors.controllers.nodes.node_ipam.cidr_set import CidrSet, RangeExhaustedError, parse_network


def blocks_of(cluster: str, mask: int) -> CidrSet:
    return CidrSet(parse_network(cluster), mask=mask)


def allocate(blocks: CidrSet) -> str:
    return str(blocks.allocate().network)


@pytest.mark.parametrize(
    ("cluster", "mask", "index", "expected"),
    [
        ("127.123.3.0/16", 24, 0, "127.123.0.0/24"),
        ("127.123.0.0/16", 24, 255, "127.123.255.0/24"),
        ("192.168.5.219/28", 32, 5, "192.168.5.213/32"),
        ("2001:db8:85a3::/50", 63, 6425, "2001:db8:85a3:3232::/63"),
        ("2001:db8:1234:ff00::/56", 72, 6425, "2001:db8:1234:ff19:1900::/72"),
        ("2001:db8:1234:ff00::/80", 96, 6425, "2001:db8:1234:ff00:0:1919::/96"),
    ],
)
def test_block_and_index_are_converted_both_ways(cluster: str, mask: int, index: int, expected: str) -> None:
    blocks = blocks_of(cluster, mask)
    assert str(blocks.block(index)) == expected
    assert blocks.span(parse_network(expected)) == range(index, index + 1)


@pytest.mark.parametrize(
    ("cluster", "mask", "network", "first", "last"),
    [
        ("127.0.0.0/8", 16, "127.0.0.0/8", 0, 255),
        ("127.0.0.0/8", 16, "127.0.0.0/2", 0, 255),
        ("127.0.0.0/8", 16, "127.0.0.0/16", 0, 0),
        ("127.0.0.0/8", 16, "127.123.0.0/16", 123, 123),
        ("127.0.0.0/8", 16, "127.5.7.0/24", 5, 5),
        ("127.0.0.0/7", 16, "127.0.0.0/15", 256, 257),
        ("127.0.0.0/7", 15, "127.0.0.0/15", 128, 128),
        ("127.0.0.0/7", 18, "127.0.0.0/15", 1024, 1031),
        ("2001:db8::/32", 48, "2001:db8:7::/48", 7, 7),
        ("2001:db8::/32", 48, "2001:db8:7:8::/64", 7, 7),
    ],
)
def test_blocks_that_a_network_overlaps(cluster: str, mask: int, network: str, first: int, last: int) -> None:
    assert blocks_of(cluster, mask).span(parse_network(network)) == range(first, last + 1)


@pytest.mark.parametrize("network", ["10.0.0.0/8", "128.0.0.0/16", "2001:db8::/32"])
def test_foreign_network_overlaps_no_block(network: str) -> None:
    blocks = blocks_of("127.0.0.0/8", 16)
    for act in (blocks.span, blocks.occupy, blocks.release, blocks.reserve):
        with pytest.raises(ValueError, match=f"cidr {network} is out the range of cluster cidr 127.0.0.0/8"):
            act(parse_network(network))


def test_full_range_allocates_again_after_a_release() -> None:
    blocks = blocks_of("127.123.234.0/30", 30)
    assert allocate(blocks) == "127.123.234.0/30"
    with pytest.raises(RangeExhaustedError, match="no remaining CIDRs left to allocate in the accepted range"):
        blocks.allocate()
    assert blocks.release(parse_network("127.123.234.0/30")) == 1
    assert allocate(blocks) == "127.123.234.0/30"


def test_released_block_is_allocated_in_the_next_round() -> None:
    blocks = blocks_of("10.0.0.0/28", 30)
    assert [allocate(blocks) for _ in range(3)] == ["10.0.0.0/30", "10.0.0.4/30", "10.0.0.8/30"]
    blocks.release(parse_network("10.0.0.0/30"))
    blocks.release(parse_network("10.0.0.8/30"))
    assert [allocate(blocks) for _ in range(3)] == ["10.0.0.12/30", "10.0.0.0/30", "10.0.0.8/30"]


def test_occupied_blocks_are_skipped_and_counted() -> None:
    blocks = blocks_of("10.0.0.0/24", 28)
    blocks.occupy(parse_network("10.0.0.0/26"))
    first = blocks.allocate()
    assert (str(first.network), first.skipped) == ("10.0.0.64/28", 4)
    assert blocks.allocate().skipped == 0
    blocks.occupy(parse_network("10.0.0.128/25"))
    blocks.occupy(parse_network("10.0.0.96/27"))
    blocks.release(parse_network("10.0.0.16/28"))
    assert blocks.allocate().skipped == 10 + 1, "ten from the sixth block to the end, and one at the start"


def test_occupy_and_release_count_only_changes() -> None:
    blocks = blocks_of("10.0.0.0/24", 28)
    assert [blocks.occupy(parse_network("10.0.0.0/27")) for _ in range(2)] == [2, 0]
    assert blocks.occupy(parse_network("10.0.0.0/26")) == 2
    assert blocks.used == 4
    assert [blocks.release(parse_network("10.0.0.0/27")) for _ in range(2)] == [2, 0]
    assert blocks.release(parse_network("10.0.0.0/24")) == 2
    assert blocks.used == 0


@pytest.mark.parametrize(
    ("service", "free"),
    [("10.1.0.0/18", 192), ("10.1.255.0/24", 255), ("10.1.0.128/25", 255), ("10.0.0.0/8", 0), ("10.1.0.0/16", 0)],
)
def test_reserved_blocks_are_neither_allocated_nor_released(service: str, free: int) -> None:
    blocks = blocks_of("10.1.0.0/16", 24)
    reserved = parse_network(service)
    blocks.reserve(reserved)
    assert blocks.size - blocks.used == free
    assert blocks.release(parse_network("10.1.0.0/16")) == 0
    given = [blocks.allocate().network for _ in range(free)]
    assert not any(network.overlaps(reserved) for network in given)
    with pytest.raises(RangeExhaustedError):
        blocks.allocate()


def test_largest_sets_are_usable() -> None:
    blocks = blocks_of("10.0.0.0/8", 28)
    blocks.occupy(parse_network("10.0.0.0/9"))
    assert blocks.size == 2**20
    assert allocate(blocks) == "10.128.0.0/28"
    assert blocks.used == 2**19 + 1


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["allocate", "occupy", "release"]), st.integers(0, 31)), max_size=60))
def test_set_behaves_like_a_set_of_indexes(steps: list[tuple[str, int]]) -> None:
    """Compare the results of random operations with those of a plain Python set of block indexes."""
    blocks = blocks_of("10.0.0.0/27", 32)
    taken: set[int] = set()
    for what, index in steps:
        network = blocks.block(index)
        if what == "occupy":
            assert blocks.occupy(network) == (index not in taken)
            taken.add(index)
        elif what == "release":
            assert blocks.release(network) == (index in taken)
            taken.discard(index)
        elif len(taken) < 32:
            (found,) = blocks.span(blocks.allocate().network)
            assert found not in taken
            taken.add(found)
        assert blocks.used == len(taken)
