from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.behaviour import (
    FLAP,
    HEARTBEAT,
    READY,
    RUN_SECONDS,
    SILENT,
    UNPULLABLE,
    annotation_of,
    as_exit_code,
    has_annotations,
    heartbeat_interval,
    reports_ready,
    seconds,
    silence,
    unpullable,
)
from kcm.protocols.objects import Object


def annotated(name: str, value: str) -> Object:
    return {"metadata": {"annotations": {name: value}}}


@pytest.mark.parametrize(
    "text, expected",
    [("0", 0.0), ("1.5", 1.5), ("1e2", 100.0), ("-1", None), ("nan", None), ("inf", None), ("", None), ("5s", None)],
)
def test_invalid_seconds_count_as_unset(text: str, expected: float | None) -> None:
    assert seconds(annotated(RUN_SECONDS, text), RUN_SECONDS) == expected


def test_missing_seconds_are_unset() -> None:
    assert seconds({"metadata": {}}, RUN_SECONDS) is None


@pytest.mark.parametrize(
    "text, expected",
    [("0", 0), ("1", 1), ("255", 255), ("256", None), ("-1", None), ("one", None), ("", None), ("7" * 4301, None)],
)
def test_exit_codes_are_those_of_a_process(text: str, expected: int | None) -> None:
    assert as_exit_code(text) == expected


@pytest.mark.parametrize("text, silent", [("true", True), ("True", False), ("false", False), ("", False)])
def test_node_is_silent_only_with_the_value_true(text: str, silent: bool) -> None:
    assert silence(annotated(SILENT, text), now=0.0) == (silent, None)


@pytest.mark.parametrize(
    "text, now, expected",
    [
        ("60", 0.0, (False, 60.0)),
        ("60", 59.9, (False, 60.0)),
        ("60", 60.0, (True, 120.0)),
        ("60", 119.0, (True, 120.0)),
        ("60", 120.0, (False, 180.0)),
        ("0", 61.0, (False, None)),
        ("often", 61.0, (False, None)),
    ],
)
def test_flapping_node_is_silent_in_every_other_period_of_the_clock(
    text: str, now: float, expected: tuple[bool, float | None]
) -> None:
    assert silence(annotated(FLAP, text), now=now) == expected


def test_a_node_that_is_silent_altogether_does_not_flap() -> None:
    assert silence({"metadata": {"annotations": {SILENT: "true", FLAP: "60"}}}, now=0.0) == (True, None)


@pytest.mark.parametrize("text, expected", [("60", 60.0), ("0.1", 1.0), ("seldom", 10.0), ("-5", 10.0)])
def test_heartbeat_interval_is_that_of_the_annotation(text: str, expected: float) -> None:
    assert heartbeat_interval(annotated(HEARTBEAT, text), usual=10.0) == expected


@pytest.mark.parametrize("text, ready", [("false", False), ("true", True), ("", True)])
def test_node_reports_ready_unless_the_annotation_is_false(text: str, ready: bool) -> None:
    assert reports_ready(annotated(READY, text)) is ready


def test_annotation_of_a_container_takes_precedence_over_the_pods() -> None:
    pod = {"metadata": {"annotations": {RUN_SECONDS: "5", f"web.{RUN_SECONDS}": "7"}}}
    assert annotation_of(pod, RUN_SECONDS, container="web", main=True) == "7"
    assert annotation_of(pod, RUN_SECONDS, container="log", main=True) == "5"
    assert annotation_of(pod, RUN_SECONDS, container="web", main=False) == "7"
    assert annotation_of(pod, RUN_SECONDS, container="init", main=False) is None


@pytest.mark.parametrize("name, asked", [(RUN_SECONDS, True), (f"web.{RUN_SECONDS}", True), ("example.com/a", False)])
def test_hollow_annotations_are_recognized(name: str, asked: bool) -> None:
    assert has_annotations(annotated(name, "1")) is asked


def test_images_are_listed_by_the_node_and_by_the_pod() -> None:
    node, pod = annotated(UNPULLABLE, "a:1, b/* ,"), annotated(UNPULLABLE, "c")
    assert unpullable(node, pod) == ("a:1", "b/*", "c")
    assert unpullable({"metadata": {}}, {"metadata": {}}) == ()


INVALID: Mapping[str, tuple[str, str, str]] = {
    "text for seconds": (behaviour.ATTACH_SECONDS, "soon", "'soon' is not a number of seconds >= 0"),
    "negative seconds": (behaviour.MOUNT_SECONDS, "-1", "'-1' is not a number of seconds >= 0"),
    "infinite interval": (behaviour.HEARTBEAT, "9" * 200_000, f"'{'9' * 80}…' is not a number of seconds >= 0"),
    "negative limit": (behaviour.ATTACH_LIMIT, "-1", "'-1' is not a number from 0 to 2147483647"),
    "large limit": (behaviour.ATTACH_LIMIT, "2147483648", "'2147483648' is not a number from 0 to 2147483647"),
    "driver with an invalid name": (behaviour.CSI_DRIVERS, "a.io, No_Name", "'No_Name' is not DRIVER or DRIVER=LIMIT"),
    "driver with an invalid limit": (behaviour.CSI_DRIVERS, "a.io=x", "'a.io=x' is not DRIVER or DRIVER=LIMIT"),
    "many drivers": (
        behaviour.CSI_DRIVERS,
        ",".join(f"d{n}" for n in range(40_000)),
        "40000 drivers are more than 100",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_annotation_of_a_node_is_described(case: str) -> None:
    name, text, why = INVALID[case]
    assert behaviour.invalid_annotations(annotated(name, text)) == (f"annotation {name}: {why}",)


def test_valid_annotations_of_a_node_are_not_described() -> None:
    for name, text in ((behaviour.ATTACH_LIMIT, "0"), (behaviour.CSI_DRIVERS, "a.io=7, b.io,"), (behaviour.FLAP, "9")):
        assert behaviour.invalid_annotations(annotated(name, text)) == ()


def test_number_of_csi_drivers_is_limited() -> None:
    node = annotated(behaviour.CSI_DRIVERS, ",".join(f"d{number}" for number in range(40_000)))
    assert [driver.name for driver in behaviour.csi_drivers(node)][-1] == "d99"


def test_error_texts_are_shortened_to_what_an_event_can_contain() -> None:
    assert (
        behaviour.first_text(behaviour.MOUNT_ERROR, annotated(behaviour.MOUNT_ERROR, "\u20ac" * 100_000))
        == "\u20ac" * 170
    )
