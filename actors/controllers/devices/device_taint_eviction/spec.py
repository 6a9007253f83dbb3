"""ControllerSpec of the device taint eviction controller: its flag, and the changes that enqueue pods and rules.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/resource.go,
app/options/devicetaintevictioncontroller.go, pkg/controller/devicetainteviction. Difference: DeviceClasses are not
watched; upstream watches but does not use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kcm.actors.controllers.devices.device_taint_eviction.reconciler import (
    NAME,
    POD,
    POOL,
    RULE,
    DeviceTaintEvictionReconciler,
    PodOrRule,
    pool_value,
)
from kcm.actors.controllers.devices.resource_claim.watches import PODS_BY_USE, USES, WITH_CLAIMS, claim_value
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import Change, Index, Interest, Watch
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Queue
from kcm.protocols.device_taints import RuleFacts, allocated_devices, rule_facts, slice_facts
from kcm.protocols.objects import Key, Object
from kcm.protocols.resource_claims import allocation_of, consumers_of
from kcm.protocols.resources import (
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STABLE_TAINT_RULES,
    Resource,
)
from kcm.runtime.flags.declaration import flag
from kcm.runtime.metrics.registry import Family
from kcm.runtime.tables.tables import Tables

GATE = "DRADeviceTaints"
RULES_GATE, GROUPS_GATE = "DRADeviceTaintRules", "DRAWorkloadResourceClaims"

EVICTIONS = Family(
    name="device_taint_eviction_controller_pod_deletions_total",
    kind="counter",
    help="Total number of Pods deleted by DeviceTaintEvictionController since its start.",
)
EVICTION_DURATION = Family(
    name="device_taint_eviction_controller_pod_deletion_duration_seconds",
    kind="histogram",
    help="Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via "
    "DeviceTaintEvictionController.",
    buckets=(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0),
)


class DeviceTaintEvictionOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "DeviceTaintEvictionController"

    concurrent_syncs: int = flag(
        8, "Number of pods and rules that are synced concurrently.", name="concurrent-device-taint-eviction-syncs"
    )


def _workers_problem(options: Options) -> Iterator[str]:
    workers = options[DeviceTaintEvictionOptions].concurrent_syncs
    if workers < 1:
        yield f"concurrent-device-taint-eviction-syncs must be greater than zero, got {workers}"


def _pools_of_claim(claim: Object) -> Iterable[str]:
    try:
        return {pool_value(device.driver, device.pool) for device in allocated_devices(claim)}
    except ValueError:
        return ()  # the reconciler logs a warning about the malformed allocation


def _pool_of_slice(slice_: Object) -> Iterable[str]:
    facts = slice_facts(slice_)
    return (pool_value(facts.driver, facts.pool),)


SLICES_BY_POOL, CLAIMS_BY_POOL = (
    Index(RESOURCE_SLICES, POOL, _pool_of_slice),
    Index(RESOURCE_CLAIMS, POOL, _pools_of_claim),
)


def _pods_of(claim: Key, tables: Tables) -> Iterator[PodOrRule]:
    for pod in tables[PODS].indexed_entries(USES, claim_value(claim)):
        yield PodOrRule(POD, pod.key)


def pod_itself(change: Change, _tables: Tables) -> Iterable[PodOrRule]:
    """Enqueue a pod that is new, deleted or bound, or whose generated claims have changed."""
    old, new = change.old, change.new
    same = old is not None and not change.deleted and _uses(old) == _uses(new)
    return () if same else (PodOrRule(POD, change.key),)


def _uses(pod: Object) -> tuple[object, ...]:
    status = pod.get("status") or {}
    return (pod["metadata"].get("uid"), (pod.get("spec") or {}).get("nodeName"), status.get("resourceClaimStatuses"))


def pods_of_claim(change: Change, tables: Tables) -> Iterable[PodOrRule]:
    """Enqueue the pods that refer to a claim whose allocation or consumers have changed."""
    old, new = change.old, change.new
    unallocated = allocation_of(new) is None and (old is None or allocation_of(old) is None)
    if not change.deleted and (unallocated or (old is not None and _state(old) == _state(new))):
        return ()
    return _pods_of(change.key, tables)


def _state(claim: Object) -> tuple[object, ...]:
    return (claim["metadata"].get("uid"), allocation_of(claim), consumers_of(claim))


def pods_of_slice(change: Change, tables: Tables) -> Iterator[PodOrRule]:
    """Enqueue the pods that use devices of a slice's pool.

    Nothing is enqueued if no slice of the pool has a NoExecute taint, and the changed slice had none before.
    """
    before = None if change.old is None else slice_facts(change.old)
    after = slice_facts(change.new)
    for driver, pool in {(facts.driver, facts.pool) for facts in (before, after) if facts is not None}:
        value = pool_value(driver, pool)
        others = tables[RESOURCE_SLICES].indexed_entries(POOL, value)
        evicting = any(facts is not None and facts.evicting for facts in (before, after))
        if evicting or any(entry.facts.evicting for entry in others):
            for claim in tables[RESOURCE_CLAIMS].indexed_entries(POOL, value):
                yield from _pods_of(claim.key, tables)


def rule_and_pods(change: Change, tables: Tables) -> Iterator[PodOrRule]:
    """Enqueue a rule, then the pods that use devices which the rule selects, or selected before the change."""
    yield PodOrRule(RULE, change.key)
    rules = [rule_facts(obj) for obj in (change.old, change.new) if obj is not None]
    for claim in tables[RESOURCE_CLAIMS].objects():
        if _is_selected(claim, rules):
            namespace, name = claim["metadata"].get("namespace"), claim["metadata"]["name"]
            yield from _pods_of(f"{namespace}/{name}", tables)


def _is_selected(claim: Object, rules: list[RuleFacts]) -> bool:
    try:
        devices = allocated_devices(claim)
    except ValueError:
        return False
    return any(rule.selects(device.driver, device.pool, device.device) for rule in rules for device in devices)


WATCHES = (
    Watch(RESOURCE_CLAIMS, to=pods_of_claim),
    Watch(PODS, to=pod_itself, interest=WITH_CLAIMS),
    Watch(
        RESOURCE_SLICES,
        to=pods_of_slice,
        interest=Interest(changed=("driver", "pool", "generation", "devices", "evicting")),
    ),
)


def watched_rules(options: Options) -> Resource | None:
    """Return DeviceTaintRules in the version that API servers of the emulated release serve.

    None without the feature gate: the server may not serve them.
    """
    if not options.feature_gates[RULES_GATE]:
        return None
    return STABLE_TAINT_RULES if options.versions.emulation > BINARY else DEVICE_TAINT_RULES


def _with_rules(spec: ControllerSpec, options: Options) -> ControllerSpec:
    rules = watched_rules(options)
    if rules is None:
        return spec
    watch = Watch(rules, to=rule_and_pods, interest=Interest(changed=("selector", "taint")))
    (queue,) = spec.queues
    queues = (replace(queue, watches=(*WATCHES[:2], watch, *WATCHES[2:])),)
    return replace(spec, queues=queues, facts=(*spec.facts, Facts(rules, rule_facts)))


def _build(context: ControllerContext) -> DeviceTaintEvictionReconciler:
    deletions = context.metrics.counter(EVICTIONS)
    duration = context.metrics.histogram(EVICTION_DURATION)

    def evicted(seconds: float) -> None:
        deletions.inc()
        duration.observe(seconds)

    gates = context.options.feature_gates
    return DeviceTaintEvictionReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        evicted=evicted,
        rules=watched_rules(context.options),
        groups=gates[GROUPS_GATE],
    )


SPEC = ControllerSpec(
    name=NAME,
    never_blocks=True,
    queues=(
        Queue(
            NAME,
            watches=WATCHES,
            concurrency=lambda options: options[DeviceTaintEvictionOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    indexes=(PODS_BY_USE, CLAIMS_BY_POOL, SLICES_BY_POOL),
    facts=(Facts(RESOURCE_SLICES, slice_facts),),
    build=_build,
    enabled_if=lambda options: options.feature_gates[GATE],
    needs=f"--feature-gates={GATE}=true",
    adapted=_with_rules,
    options=DeviceTaintEvictionOptions,
    checks=(_workers_problem,),
)
