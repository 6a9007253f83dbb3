"""Parsers of integers accept exactly the ranges that upstream accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.objects import (
    DESIRED_REPLICAS,
    parse_replica_set,
    replicas_annotation,
    revision_of,
)
from kcm.actors.controllers.workloads.deployment.revisions import next_revision, requested_revision
from kcm.protocols.integers import INT32, INT64, UINT64, counted, parse_int, parse_uint, wrapped_int64
from kcm.protocols.percentages import scaled_value
from kcm.protocols.pods import pod_facts
from kcm.protocols.selectors import parse_label_selector
from kcm.runtime.apiserver.verbs import integers as queries

MOST_DIGITS = "9" * 5000  # more than int() reads
READABLE = [
    ("0", 0),
    ("007", 7),
    ("0" * 5000 + "7", 7),
    ("2147483647", 2**31 - 1),
    ("2147483648", 2**31),
    ("3546343826724305832", 3546343826724305832),
    (str(2**63 - 1), 2**63 - 1),
]
SIGNED = [("+5", 5), ("-5", -5), ("-0", 0), (str(-(2**63)), -(2**63))]
NO_INTEGERS = ["", "+", "-", "--5", "1.0", "1e3", "0x10", " 1", "1 ", "1\n", "1_000", "٣", "two"]
TOO_LARGE = [str(2**63), str(-(2**63) - 1), "1" + "0" * 30, MOST_DIGITS]


def annotated(name: str, text: str) -> dict[str, Any]:
    return {"metadata": {"name": "web", "annotations": {name: text}}}


def percentage(text: str) -> int | None:
    try:
        return scaled_value(f"{text}%", 100, round_up=False)
    except ValueError:
        return None


def query(text: str) -> int | None:
    try:
        return queries.parse_int(text)
    except ValueError:
        return None


INT64_READERS: dict[str, Callable[[str], int | None]] = {
    "parse_int": parse_int,
    "a revision": lambda text: revision_of(annotated("deployment.kubernetes.io/revision", text)),
    "a rollback": lambda text: requested_revision({"deprecated.deployment.rollback.to": text}),
    "a percentage": percentage,
    "a query": query,
}


@pytest.mark.parametrize("reader", INT64_READERS)
def test_an_int64_is_read_whole_and_nothing_beyond_it(reader: str) -> None:
    read = INT64_READERS[reader]
    for text, number in READABLE + SIGNED:
        assert read(text) == number, text[:40]
    for text in NO_INTEGERS + TOO_LARGE:
        if reader == "a revision" and text == "":
            continue  # not a revision: 0
        assert read(text) is None, text[:40]


def test_bounds_may_be_narrower() -> None:
    assert [parse_int(text, INT32) for text in (str(2**31 - 1), str(2**31), str(-(2**31)))] == [
        2**31 - 1,
        None,
        -(2**31),
    ]
    assert [parse_uint(text) for text in (str(2**64 - 1), str(2**64), "+1", "-1")] == [2**64 - 1, None, None, None]
    assert parse_int(None) is parse_int(5) is parse_uint(["1"]) is None
    assert 2**63 - 1 in INT64
    assert 2**63 in UINT64


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("2147483647", 2**31 - 1),
        ("0" * 30 + "5", 5),
        ("2147483648", None),
        ("+5", None),
        ("-5", None),
        ("", None),
        (MOST_DIGITS, None),
    ],
)
def test_a_count_in_an_annotation_is_an_int32_without_a_sign(text: str, count: int | None) -> None:
    assert replicas_annotation(annotated(DESIRED_REPLICAS, text), DESIRED_REPLICAS) == count


@pytest.mark.parametrize(
    ("text", "cost"),
    [("2147483647", 2**31 - 1), ("-2147483648", -(2**31)), ("2147483648", 0), ("007", 0), ("+7", 0), (MOST_DIGITS, 0)],
)
def test_the_cost_of_deleting_a_pod_is_an_int32_without_zeros_before_it(text: str, cost: int) -> None:
    pod = {"metadata": {"name": "p", "annotations": {"controller.kubernetes.io/pod-deletion-cost": text}}}
    assert pod_facts(pod).deletion_cost == cost


@pytest.mark.parametrize(
    ("selector", "value", "matches"),
    [
        ("size>9223372036854775806", "9223372036854775807", True),
        ("size>5", "0" * 60 + "6", True),
        ("size>5", "9223372036854775808", False),
        ("size<5", "-9223372036854775808", True),
    ],
)
def test_a_selector_compares_int64s(selector: str, value: str, matches: bool) -> None:
    assert parse_label_selector(selector).matches({"size": value}) is matches


@pytest.mark.parametrize(
    ("revisions", "following"),
    [
        (["3546343826724305832"], 3546343826724305833),  # of an adopted ReplicaSet, in upstream's e2e suite
        ([str(2**63 - 1)], -(2**63)),  # as upstream: it has 64 bits
        ([str(2**63), "4"], 5),
        (["-7"], 1),
    ],
)
def test_the_next_revision_is_an_int64(revisions: list[str], following: int) -> None:
    assert (
        next_revision([parse_replica_set(annotated("deployment.kubernetes.io/revision", text)) for text in revisions])
        == following
    )


@pytest.mark.parametrize(
    ("number", "wrapped"),
    [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (2**64 + 5, 5)],
)
def test_numbers_beyond_64_bits_wrap_around(number: int, wrapped: int) -> None:
    assert wrapped_int64(number) == wrapped


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_noun_is_in_the_plural_unless_the_number_is_one(number: int, text: str) -> None:
    assert counted(number, "pod") == text
