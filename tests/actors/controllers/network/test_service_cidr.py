"""Service CIDR controller: upstream's tables, the grace period, and failures of writes.

Cases: kubernetes v1.36 pkg/controller/servicecidrs/servicecidrs_controller_test.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.controllers.network.service_cidr import (
    FINALIZER,
    GRACE_PERIOD,
    IS_READY,
    IS_TERMINATING,
    SPEC,
    ServiceCidrs,
    blocking_address,
    containing,
    containing_change,
    overlapping,
    with_overlapping,
)
from kcm.actors.reconciliation import Because, Change, RequeueAfter
from kcm.actors.simulation.driver import NOW, Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, List, Patch
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, Forbidden, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, encode_object, name_of
from kcm.protocols.resources import IP_ADDRESSES, SERVICE_CIDRS
from kcm.protocols.service_cidrs import parse_address
from kcm.protocols.times import format_time

V4, V6 = "192.168.0.0/24", "2001:db2::/64"


def cidr(name: str, *cidrs: str, **meta: Any) -> Object:
    head = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **meta}
    return {"metadata": head, "spec": {"cidrs": list(cidrs)}}


def ours(*cidrs: str, deleted: float | None = None, finalizers: Sequence[str] = (FINALIZER,)) -> Object:
    """Return the ServiceCIDR of most cases. deleted: for how many seconds it has been deleted; None: it is not."""
    found = cidr("ours", *(cidrs or (V4, V6)), finalizers=list(finalizers))
    if deleted is not None:
        found["metadata"]["deletionTimestamp"] = format_time(NOW - deleted)
    return found


def address(name: str, **labels: str) -> Object:
    family = "IPv6" if ":" in name else "IPv4"
    given = {"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
    return {"metadata": {"name": name, "labels": {**given, **labels}}, "spec": {"parentRef": {}}}


def ready(condition: Any) -> list[Object]:
    return [{"type": "Ready", "status": condition.status, "reason": condition.reason, "message": condition.message}]


class Scene:
    """Bench with ServiceCIDRs and IPAddresses. live: objects of the API server, if they differ from the tables."""

    def __init__(
        self,
        cidrs: Iterable[Object] = (),
        addresses: Iterable[Object] = (),
        live_cidrs: Iterable[Object] | None = None,
        live_addresses: Iterable[Object] | None = None,
    ) -> None:
        cidrs, addresses = list(cidrs), list(addresses)
        self.live = {
            SERVICE_CIDRS.id: cidrs if live_cidrs is None else list(live_cidrs),
            IP_ADDRESSES.id: addresses if live_addresses is None else list(live_addresses),
        }
        self.bench = Bench({SERVICE_CIDRS: cidrs, IP_ADDRESSES: addresses}, indexes=SPEC.indexes)
        self.reconciler = ServiceCidrs(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=CapturingLogger(),  # type: ignore[arg-type]
        )

    def reconcile(self, name: str = "ours", answer: Answer | None = None) -> Driven:
        return drive(self.reconciler, name, answer or self.accept, tables=self.bench.tables)

    def accept(self, command: Command) -> Outcome:
        if isinstance(command, List):
            return Done(encode_object({"items": self.live[command.resource]}))
        if isinstance(command, Patch):  # the tables stay as they are, as if the watch were late
            found = next(found for found in self.live[SERVICE_CIDRS.id] if name_of(found) == command.key)
            return Done(encode_object(found))
        return self.bench.accept(command)

    def written(self, name: str = "ours") -> list[str]:
        """Reconcile, and return the written subresources."""
        return [patch.subresource for patch in self.reconcile(name).of(Patch)]


def larger(*cidrs: str) -> Object:
    return cidr("overlapping", *cidrs)


@pytest.mark.parametrize(
    ("cidrs", "addresses", "written"),
    [
        ([], [], []),
        ([ours(finalizers=())], [], ["", "status"]),
        ([ours(deleted=11)], [], [""]),
        ([ours(deleted=0)], [], []),
        ([ours(deleted=11)], ["192.168.0.1"], ["status"]),
        ([ours(deleted=11), larger(V4, V6)], ["192.168.0.1"], [""]),
        ([ours(deleted=11), larger("192.168.0.0/16", V6)], ["192.168.0.1"], [""]),
        ([ours(deleted=11), larger("192.168.255.0/26", V6)], ["192.168.0.1"], ["status"]),
        ([ours(deleted=11)], ["2001:db2::1"], ["status"]),
        ([ours(deleted=11), larger(V4, V6)], ["2001:db2::1"], [""]),
        ([ours(deleted=11), larger("192.168.0.0/16", "2001:db2::/48")], ["2001:db2::1"], [""]),
        ([ours(deleted=11), larger("192.168.255.0/26", "2001:db2:a:b::/64")], ["2001:db2::1"], ["status"]),
        ([ours(deleted=11, finalizers=())], [], []),
        ([ours(deleted=11, finalizers=["example.com/other"])], [], []),
    ],
)
def test_sync_writes_what_upstream_writes(cidrs: list[Object], addresses: list[str], written: list[str]) -> None:
    assert Scene(cidrs, map(address, addresses)).written() == written


@pytest.mark.parametrize(
    ("others", "addresses", "blocking"),
    [
        ([], [], ""),
        ([], ["192.168.0.24"], "192.168.0.24"),
        ([], ["192.168.1.24"], ""),
        ([], ["192.168.0.0"], ""),
        ([], ["192.168.0.255"], ""),
        ([], ["2001:db2::ffff:ffff:ffff:ffff"], "2001:db2::ffff:ffff:ffff:ffff"),
        ([], ["2001:db2::"], ""),
        ([larger(V4, V6)], ["192.168.0.23"], ""),
        ([larger("192.168.0.0/26", V6)], ["192.168.0.23"], ""),
        ([larger("192.168.0.0/28", V6)], ["192.168.0.23"], "192.168.0.23"),
        ([larger("192.168.0.0/16", V6)], ["192.168.0.23"], ""),
        # Both parents are needed, and may be two ServiceCIDRs.
        ([larger("192.168.0.0/16")], ["2001:db2::1"], "2001:db2::1"),
        ([larger("192.168.0.0/16"), cidr("six", "2001:db2::/32")], ["2001:db2::1", "192.168.0.0"], ""),
        # The broadcast address of the smaller range is only in the larger one.
        ([larger("192.168.0.0/26", V6)], ["192.168.0.63"], "192.168.0.63"),
        ([], ["192.168.0.0.1"], ""),
        ([larger("invalid")], ["192.168.0.1"], "192.168.0.1"),
    ],
)
def test_deletion_waits_for_addresses_of_no_other_service_cidr(
    others: list[Object], addresses: list[str], blocking: str
) -> None:
    found = cidr("ours", V4, V6)
    assert blocking_address(found, [found, *others], map(address, addresses)) == blocking


def test_service_cidr_that_is_not_listed_has_no_parents() -> None:
    assert blocking_address(cidr("ours", V4, V6), [], [address("192.168.0.1")]) == ""


@pytest.mark.parametrize(
    "labels",
    [
        {"ipaddress.kubernetes.io/managed-by": "gateway.example.com"},
        {"ipaddress.kubernetes.io/ip-family": "IPv5"},
    ],
)
def test_address_of_another_manager_does_not_delay_the_deletion(labels: dict[str, str]) -> None:
    found = cidr("ours", V4)
    assert blocking_address(found, [found], [address("192.168.0.1", **labels)]) == ""


SMALL, UNRELATED = (
    cidr("small", "192.168.0.0/26", "2001:db2::/96"),
    [cidr("one", "10.0.0.0/24"), cidr("two", "10.0.0.0/16")],
)


@pytest.mark.parametrize(
    ("cidrs", "name", "found"),
    [
        ([], "192.168.0.23", []),
        ([cidr("ours", V4, V6), *UNRELATED], "192.168.0.23", ["ours"]),
        ([cidr("ours", V4, V6), cidr("same", V4, "2001:db2::/96"), *UNRELATED], "192.168.0.23", ["ours", "same"]),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL], "192.168.0.23", ["ours", "same", "small"]),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL], "192.168.0.0", []),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL], "192.168.0.63", ["ours", "same"]),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL], "2001:db2::", []),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL], "2001:db2::ffff:ffff:ffff:ffff", ["ours", "same"]),
    ],
)
def test_address_enqueues_the_service_cidrs_that_contain_it(cidrs: list[Object], name: str, found: list[str]) -> None:
    parsed = parse_address(name)
    assert parsed is not None
    assert containing(parsed, cidrs) == found
    tables = Scene(cidrs).bench.tables
    change = Change(type="DELETED", key=name, raw=encode_object(address(name)), controller=None)
    assert sorted(containing_change(change, tables)) == found


def test_malformed_address_enqueues_nothing() -> None:
    change = Change(type="ADDED", key="x", raw=encode_object(address("x")), controller=None)
    assert list(containing_change(change, Scene([ours()]).bench.tables)) == []


@pytest.mark.parametrize(
    ("cidrs", "found"),
    [
        ([], []),
        ([cidr("ours", V4, V6), *UNRELATED], ["ours"]),
        ([cidr("ours", V4, V6), cidr("same", V4, "2001:db2::/96"), *UNRELATED], ["ours", "same"]),
        ([cidr("ours", V4, V6), cidr("same", V4, V6), SMALL, *UNRELATED], ["ours", "same", "small"]),
    ],
)
def test_new_service_cidr_enqueues_those_that_overlap_it(cidrs: list[Object], found: list[str]) -> None:
    new = cidr("ours", V4, V6)
    assert overlapping(new, cidrs) == found
    tables, raw = Scene(cidrs).bench.tables, encode_object(new)
    added = Change(type="ADDED", key="ours", raw=raw, controller=None)
    assert set(with_overlapping(added, tables)) == {"ours", *found}
    changed = Change(type="MODIFIED", key="ours", raw=raw, controller=None, previous=raw)
    assert list(with_overlapping(changed, tables)) == ["ours"]


def test_ready_condition_is_applied_once() -> None:
    scene = Scene([ours()])
    (status,) = scene.reconcile().of(Patch)
    assert (status.field_manager, status.force, status.subresource) == ("service-cidr-controller", True, "status")
    assert Scene([{**ours(), "status": {"conditions": ready(IS_READY)}}]).written() == []
    assert Scene([{**ours(), "status": {"conditions": ready(IS_TERMINATING)}}]).written() == ["status"]
    blocked = {**ours(deleted=20), "status": {"conditions": ready(IS_TERMINATING)}}
    assert Scene([blocked], [address("192.168.0.1")]).written() == []


def test_finalizer_is_kept_for_the_grace_period() -> None:
    scene = Scene([ours(deleted=4)])
    assert scene.reconcile().result == RequeueAfter(GRACE_PERIOD - 4)
    scene.bench.clock.advance(GRACE_PERIOD - 4)
    (patch,) = scene.reconcile().of(Patch)
    assert b"$deleteFromPrimitiveList/finalizers" in patch.body


def test_address_that_the_table_lacks_blocks_the_deletion() -> None:
    scene = Scene([ours(deleted=20)], live_addresses=[address("192.168.0.1")])
    assert scene.written() == ["status"]
    gone = Scene([ours(deleted=20), larger(V4, V6)], [address("192.168.0.1")], live_cidrs=[ours(deleted=20)])
    assert gone.written() == ["status"]


def test_service_cidr_that_another_finalizer_holds_does_not_count() -> None:
    held = cidr("same", V4, V6, finalizers=["example.com/hold"], deletionTimestamp=format_time(NOW - 20))
    assert Scene([ours(deleted=20), held], [address("192.168.0.1")]).written() == ["status"]


def test_service_cidr_that_is_being_released_does_not_count_for_another() -> None:
    same = cidr("same", V4, V6, finalizers=[FINALIZER], deletionTimestamp=format_time(NOW - 20))
    scene = Scene([ours(deleted=20), same], [address("192.168.0.1")])
    assert scene.written("ours") == [""]
    assert scene.written("same") == ["status"]


@pytest.mark.parametrize(
    ("outcome", "written"),
    [
        (Forbidden(""), [""]),  # it counts again
        (Unknown(""), ["status"]),  # it may be deleted
    ],
)
def test_service_cidr_whose_release_failed_counts_if_it_still_exists(outcome: Outcome, written: list[str]) -> None:
    same = cidr("same", V4, V6, finalizers=[FINALIZER], deletionTimestamp=format_time(NOW - 20))
    scene = Scene([ours(deleted=20), same], [address("192.168.0.1")])
    with pytest.raises(CommandError):
        scene.reconcile(answer=lambda command: refuse(scene, command, outcome))
    assert scene.written("same") == written


def refuse(scene: Scene, command: Command, outcome: Outcome) -> Outcome:
    return outcome if isinstance(command, Patch) else scene.accept(command)


def test_status_that_cannot_be_written_causes_an_event() -> None:
    scene = Scene([ours()])
    running: Any = scene.reconciler.reconcile("ours")
    assert isinstance(next(running), Because)
    assert isinstance(next(running), Patch)
    event = running.send(Forbidden("no"))
    assert isinstance(event, Record)
    with pytest.raises(CommandError):
        next(running)
    assert (event.type, event.reason, event.message) == (
        "Warning",
        "KubernetesServiceCIDRError",
        "The ServiceCIDR Status can not be set to Ready=True",
    )


@pytest.mark.parametrize(("given", "written"), [(ours(finalizers=()), ["", "status"]), (ours(deleted=20), [""])])
def test_write_to_a_deleted_service_cidr_is_not_retried(given: Object, written: list[str]) -> None:
    scene = Scene([given])
    driven = scene.reconcile(answer=lambda command: refuse(scene, command, NotFound("")))
    assert ([patch.subresource for patch in driven.of(Patch)], driven.result) == (written, None)
