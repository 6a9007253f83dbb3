"""Inventory of devices: ResourceSlices by node, and the resource pools that a node can use.

A pool is all slices of one driver with the same pool name and the highest generation.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
pools_incubating.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.actors.hollow.scheduler.node_fit import NodeView
from kcm.protocols.device_taints import rule_facts
from kcm.protocols.node_affinity import Term, terms_of
from kcm.protocols.objects import Object, name_of
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

Counters = Mapping[str, Mapping[str, Decimal]]  # by the name of the counter set, amounts by the name of the counter


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Nodes(Struct, frozen=True):
    """Nodes that can use a device or a slice.

    name: the only node; "" if another field selects the nodes.
    everywhere: all nodes.
    terms: alternatives of a node selector, or None.
    selector: the node selector as it is in the slice.
    """

    name: str
    everywhere: bool
    terms: tuple[Term, ...] | None
    selector: Mapping[str, Any] | None

    def include(self, node: NodeView) -> bool:
        if self.name:
            return self.name == node.name
        if self.everywhere:
            return True
        return self.terms is not None and any(term.matches(node.name, node.labels) for term in self.terms)


class Device(Struct, eq=False):
    """Device of a slice.

    raw: the device as it is in the slice.
    consumes: counters of its pool that it consumes while it is allocated.
    matched: results of selectors by expression.
    variable: the value of `device` in selectors, once one was evaluated.
    ruled: taints of the DeviceTaintRules that select the device.
    """

    id: DeviceId
    raw: Mapping[str, Any]
    nodes: Nodes
    consumes: Counters
    multiple: bool
    binds_to_node: bool
    matched: dict[str, bool] = field(default_factory=dict)
    variable: Any = None
    ruled: tuple[Mapping[str, Any], ...] = ()

    @property
    def taints(self) -> Sequence[Mapping[str, Any]]:
        return (*(self.raw.get("taints") or ()), *self.ruled)


class Slice(Struct, eq=False):
    """ResourceSlice.

    count: number of slices of its pool.
    nodes: nodes that can use all of its devices, or None if each device selects its nodes.
    shared: counter sets of the pool.
    """

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    nodes: Nodes | None
    devices: tuple[Device, ...]
    shared: tuple[tuple[str, Mapping[str, Decimal]], ...]

    @property
    def owner(self) -> str:
        """Return the name of the only node that has these devices, or ""."""
        return self.nodes.name if self.nodes is not None and not self.shared else ""

    def concerns(self, node: NodeView) -> bool:
        """Report whether a node needs this slice."""
        if self.shared:
            return True
        if self.nodes is not None:
            return self.nodes.include(node)
        return any(device.nodes.include(node) for device in self.devices)


class Pool(Struct, eq=False):
    """Pool as one node sees it.

    slices: slices with devices of the node.
    elsewhere: further slices of the pool, whose allocated devices consume counters.
    problem: why no device can be allocated, or "".
    """

    driver: str
    name: str
    slices: tuple[Slice, ...] = ()
    elsewhere: tuple[Slice, ...] = ()
    counters: Counters = field(default_factory=dict)
    is_incomplete: bool = False
    problem: str = ""

    @property
    def id(self) -> str:
        return f"{self.driver}/{self.name}"

    @property
    def usable(self) -> bool:
        return not self.is_incomplete and not self.problem


def slice_of(obj: Object) -> Slice:
    """Parse a ResourceSlice. Raises ValueError if it is malformed."""
    spec = obj["spec"]
    driver, pool = spec["driver"], spec["pool"]
    per_device = bool(spec.get("perDeviceNodeSelection"))
    own = None if per_device else _nodes(spec)
    return Slice(
        name=name_of(obj),
        driver=driver,
        pool=pool["name"],
        generation=int(pool.get("generation") or 0),
        count=int(pool.get("resourceSliceCount") or 0),
        nodes=own,
        devices=tuple(
            Device(
                id=DeviceId(driver, pool["name"], device["name"]),
                raw=device,
                nodes=_nodes(device) if own is None else own,
                consumes={
                    consumed.get("counterSet") or "": _amounts(consumed)
                    for consumed in device.get("consumesCounters") or ()
                },
                multiple=bool(device.get("allowMultipleAllocations")),
                binds_to_node=bool(device.get("bindsToNode")),
            )
            for device in spec.get("devices") or ()
        ),
        shared=tuple((shared.get("name") or "", _amounts(shared)) for shared in spec.get("sharedCounters") or ()),
    )


def _nodes(where: Mapping[str, Any]) -> Nodes:
    selector = where.get("nodeSelector")
    terms = None if selector is None else terms_of(selector)
    return Nodes(where.get("nodeName") or "", bool(where.get("allNodes")), terms, selector)


def _amounts(counters: Mapping[str, Any]) -> Mapping[str, Decimal]:
    return {
        name: Decimal(parse_quantity(counter.get("value") or "0"))
        for name, counter in (counters.get("counters") or {}).items()
    }


class Inventory:
    """All slices, and the pools of each node."""

    def __init__(self, slices: Iterable[Slice] = ()) -> None:
        self._by_node: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        self._by_pool: dict[tuple[str, str], list[Slice]] = {}
        self._pools: dict[str, tuple[NodeView, tuple[Pool, ...]]] = {}
        for slice_ in slices:
            self._by_pool.setdefault((slice_.driver, slice_.pool), []).append(slice_)
            if slice_.owner:
                self._by_node.setdefault(slice_.owner, []).append(slice_)
            else:
                self._shared.append(slice_)

    def pools(self, node: NodeView) -> tuple[Pool, ...]:
        """Return the pools with devices for a node, in the order of allocation."""
        known = self._pools.get(node.name)
        if known is None or known[0] is not node:
            known = self._pools[node.name] = (node, self._pools_of(node))
        return known[1]

    def _pools_of(self, node: NodeView) -> tuple[Pool, ...]:
        found: dict[tuple[str, str], list[Slice]] = {}
        for slice_ in (*self._by_node.get(node.name, ()), *self._shared):
            if not slice_.concerns(node):
                continue
            newest = found.get((slice_.driver, slice_.pool))
            if newest is None or slice_.generation > newest[0].generation:
                found[slice_.driver, slice_.pool] = [slice_]
            elif slice_.generation == newest[0].generation:
                newest.append(slice_)
        pools = [pool for key in sorted(found) if (pool := self._pool(*key, found[key])) is not None]
        # Devices that must be prepared before a pod can be bound are used last.
        return (*(pool for pool in pools if not _has_conditions(pool)), *filter(_has_conditions, pools))

    def _pool(self, driver: str, name: str, slices: list[Slice]) -> Pool | None:
        """Return a pool, or None if its slices are being replaced by newer ones that the node does not use."""
        generation, count = slices[0].generation, slices[0].count
        elsewhere: list[Slice] = []
        if len(slices) != count:
            of_pool = self._by_pool[driver, name]
            if any(slice_.generation > generation for slice_ in of_pool):
                return None
            current = [slice_ for slice_ in of_pool if slice_.generation == generation]
            if len(current) != count:
                return Pool(driver, name, is_incomplete=True)
            known = {slice_.name for slice_ in slices}
            elsewhere = [slice_ for slice_ in current if slice_.name not in known]
        return _built(driver, name, sorted(slices, key=lambda slice_: slice_.name), elsewhere)


def _has_conditions(pool: Pool) -> bool:
    return any(device.raw.get("bindingConditions") for slice_ in pool.slices for device in slice_.devices)


def _built(driver: str, name: str, slices: Sequence[Slice], elsewhere: Sequence[Slice]) -> Pool:
    with_devices = [slice_ for slice_ in slices if not slice_.shared]
    names: set[str] = set()
    for slice_ in with_devices:
        for device in slice_.devices:
            if device.id.device in names:
                return Pool(driver, name, problem=f"duplicate device name {device.id.device}")
            names.add(device.id.device)
    counters: dict[str, Mapping[str, Decimal]] = {}
    for slice_ in slices:
        for set_name, amounts in slice_.shared:
            if set_name in counters:
                return Pool(driver, name, problem=f"duplicate counter set name {set_name}")
            counters[set_name] = amounts
    for slice_ in (*slices, *elsewhere):
        for device in slice_.devices:
            problem = _unknown_counter(device, counters)
            if problem:
                return Pool(driver, name, problem=problem)
    return Pool(driver, name, tuple(with_devices), tuple(elsewhere), counters)


def _unknown_counter(device: Device, counters: Counters) -> str:
    for set_name, amounts in device.consumes.items():
        known = counters.get(set_name)
        if known is None:
            return f"counter set {set_name} not found"
        for name in amounts:
            if name not in known:
                return f"counter {name} not found in counter set {set_name}"
    return ""


class Slices:
    """ResourceSlices of a lister, parsed once per version. A malformed slice or DeviceTaintRule is ignored."""

    def __init__(self, lister: Lister, rules: Lister | None = None) -> None:
        """Initialise for slices. rules: the DeviceTaintRules, or None."""
        self._lister, self._rules = lister, rules
        self._rules_version = -1
        self._known: dict[str, tuple[Entry, Slice | None]] = {}
        self._version = -1
        self._inventory = Inventory()

    @property
    def version(self) -> int:
        """Return a number that rises with every change of the inventory."""
        return self._lister.version + (0 if self._rules is None else self._rules.version)

    def inventory(self) -> Inventory:
        changed = self._look_at_slices()
        if self._rules is not None and (changed or self._rules.version != self._rules_version):
            self._rules_version = self._rules.version
            self._apply(self._rules)
        return self._inventory

    def _apply(self, rules: Lister) -> None:
        """Set the taints of the rules in all devices. Source: resourceslice/tracker/tracker.go, applyPatches."""
        found = []
        for rule in rules.objects():
            with contextlib.suppress(ValueError):
                found.append((rule_facts(rule), rule["spec"]["taint"]))
        for _, parsed in self._known.values():
            for device in parsed.devices if parsed is not None else ():
                device.ruled = tuple(taint for facts, taint in found if facts.selects(*device.id))

    def _look_at_slices(self) -> bool:
        """Parse slices that have changed, and report whether there are any."""
        if self._lister.version == self._version:
            return False
        self._version = self._lister.version
        entries = self._lister.entries()
        changed = len(entries) != len(self._known)
        for entry in entries:
            known = self._known.get(entry.key)
            if known is not None and known[0] is entry:
                continue
            parsed = None
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                parsed = slice_of(self._lister.object_of(entry))
            self._known[entry.key], changed = (entry, parsed), True
        if changed:
            there = {entry.key for entry in entries}
            self._known = {key: known for key, known in self._known.items() if key in there}
            self._inventory = Inventory(parsed for _, parsed in self._known.values() if parsed is not None)
        return changed
