"""Who holds which blocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.controllers.nodes.node_ipam.cidr_set import CidrSet, parse_network
from actors.controllers.nodes.node_ipam.holdings import (
    ALLOCATIONS,
    MOST,
    RELEASES,
    TRIES,
    USAGE,
    Holdings,
    RangeExhaustedAt,
)
from runtime.metrics.registry import Metrics


class Setting:
    def __init__(self, *clusters: tuple[str, int], services: Sequence[str] = ()) -> None:
        self.metrics = Metrics()
        self.holdings = Holdings(
            [CidrSet(parse_network(cluster), mask=mask) for cluster, mask in clusters],
            services=[parse_network(service) for service in services],
            metrics=self.metrics,
        )

    def allot(self, node: str) -> list[str]:
        return [str(network) for network in self.holdings.allot(node)]

    def hold(self, node: str, *networks: str) -> list[str]:
        taken = self.holdings.hold(node, tuple(map(parse_network, networks)))
        return [str(network) for network in taken]


SMALL = ("127.123.234.0/28", 30)
IPV6 = ("ace:cab:deca::/84", 98)


@pytest.mark.parametrize(
    ("clusters", "services", "held", "expected"),
    [
        ([("127.123.234.0/24", 30)], [], [], ["127.123.234.0/30"]),
        ([("127.123.234.0/24", 30)], ["127.123.234.0/26"], [], ["127.123.234.64/30"]),
        (
            [("127.123.234.0/24", 30)],
            ["127.123.234.0/26"],
            ["127.123.234.64/30", "127.123.234.68/30", "127.123.234.72/30", "127.123.234.80/30"],
            ["127.123.234.76/30"],
        ),
        ([("127.123.234.0/8", 24), IPV6], [], [], ["127.0.0.0/24", "ace:cab:deca::/98"]),
        ([IPV6, ("127.123.234.0/8", 24)], [], [], ["ace:cab:deca::/98", "127.0.0.0/24"]),
        (
            [("127.123.234.0/8", 24), IPV6, ("10.0.0.0/8", 24)],
            [],
            [],
            ["127.0.0.0/24", "ace:cab:deca::/98", "10.0.0.0/24"],
        ),
        ([("10.10.0.0/22", 24)], [], ["10.10.0.0/24", "10.10.2.0/24"], ["10.10.1.0/24"]),
        ([IPV6], ["10.0.0.0/8"], [], ["ace:cab:deca::/98"]),
    ],
)
def test_a_node_is_allotted_the_first_block_that_is_free_in_each_range(
    clusters: Sequence[tuple[str, int]], services: Sequence[str], held: Sequence[str], expected: list[str]
) -> None:
    setting = Setting(*clusters, services=services)
    for number, network in enumerate(held):
        setting.hold(f"old-{number}", network)
        setting.hold(f"old-{number}", network)  # seen twice, counted once
    assert setting.allot("new") == expected
    assert setting.holdings.of("new") == tuple(map(parse_network, expected))


@pytest.mark.parametrize(
    "networks",
    [["10.10.0.0/24"], ["127.123.234.0/30", "ace:cab:deca::/98"], ["ace:cab:deca::/98"]],
)
def test_what_the_cluster_does_not_have_cannot_be_held(networks: Sequence[str]) -> None:
    setting = Setting(SMALL)
    setting.hold("n", "127.123.234.4/30")
    with pytest.raises(ValueError):
        setting.hold("n", *networks)
    assert setting.hold("other", "127.123.234.4/30") == ["127.123.234.4/30"], "the former is still held"


@pytest.mark.parametrize("networks", [["10.9.0.0/24", "ace:cab:deca::/98"], ["127.123.234.0/30", "beef::/98"]])
def test_in_dual_stack_each_range_has_to_fit(networks: Sequence[str]) -> None:
    setting = Setting(SMALL, IPV6)
    with pytest.raises(ValueError, match="is out the range of cluster cidr"):
        setting.hold("n", *networks)
    assert setting.allot("m") == ["127.123.234.0/30", "ace:cab:deca::/98"]


def test_released_blocks_are_given_again_in_turn() -> None:
    setting = Setting(SMALL)
    for number in range(4):
        assert setting.allot(f"n{number}") == [f"127.123.234.{4 * number}/30"]
    for name in ("n2", "n1"):
        setting.holdings.release(name)
    assert [setting.allot(name) for name in ("a", "b")] == [["127.123.234.4/30"], ["127.123.234.8/30"]]
    with pytest.raises(RangeExhaustedAt, match="failed to allocate cidr from cluster cidr at idx:0: CIDR allocation"):
        setting.allot("c")


def test_a_range_that_is_exhausted_costs_the_others_nothing() -> None:
    setting = Setting(IPV6, ("10.0.0.0/30", 30))
    setting.allot("n1")
    for _ in range(5):
        with pytest.raises(RangeExhaustedAt, match="at idx:1"):
            setting.allot("n2")
    assert setting.holdings.of("n2") is None
    assert setting.metrics.gauge(USAGE, IPV6[0]).value == 1 / 2**14


def test_a_block_that_two_nodes_hold_is_free_when_both_are_gone() -> None:
    setting = Setting(("127.123.234.0/30", 30))
    assert setting.hold("a", "127.123.234.0/30") == []
    assert setting.hold("b", "127.123.234.0/30") == ["127.123.234.0/30"]
    setting.holdings.release("a")
    with pytest.raises(RangeExhaustedAt):
        setting.allot("c")
    setting.holdings.release("b")
    assert setting.allot("c") == ["127.123.234.0/30"]


def test_a_node_that_holds_something_else_now_gives_back_what_it_held() -> None:
    setting = Setting(("127.123.234.0/29", 30))
    setting.allot("a")
    assert setting.hold("a", "127.123.234.4/30") == []
    assert setting.allot("b") == ["127.123.234.0/30"]


def test_a_node_in_the_service_range_leaves_it_reserved() -> None:
    setting = Setting(("127.123.234.0/29", 30), services=["127.123.234.0/30"])
    assert setting.hold("a", "127.123.234.0/30") == ["127.123.234.0/30"]
    assert setting.holdings.release("a") == (parse_network("127.123.234.0/30"),)
    assert setting.allot("b") == ["127.123.234.4/30"]


def test_nothing_is_released_of_a_node_that_holds_nothing() -> None:
    assert Setting(SMALL).holdings.release("n") == ()


def test_metrics_count_blocks_that_change_hands() -> None:
    setting = Setting(("10.0.0.0/24", 28), services=["10.0.0.0/27"])
    setting.hold("a", "10.0.0.32/27")
    setting.allot("b")
    setting.holdings.release("a")
    metrics, label = setting.metrics, "10.0.0.0/24"
    assert metrics.counter(ALLOCATIONS, label).value == 2 + 2 + 1
    assert metrics.counter(RELEASES, label).value == 2
    assert metrics.gauge(MOST, label).value == 16
    assert metrics.gauge(USAGE, label).value == 3 / 16
    assert metrics.histogram(TRIES, label).sum == 4
