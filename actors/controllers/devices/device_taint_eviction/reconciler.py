"""Reconciler of pods that use tainted devices, and of DeviceTaintRules.

Every sync of a pod computes from the listers when the pod must be evicted, so the order of changes does not matter.
Planned evictions are kept in memory for two purposes only: a cancelled eviction causes an event, and a changed eviction
causes an update of the conditions of the DeviceTaintRules that require it.

Source: kubernetes v1.36 pkg/controller/devicetainteviction/device_taint_eviction.go (handlePod, maybeDeletePod,
maybeUpdateRuleStatus). Differences:
- An eviction can be cancelled until the pod's deletion has been sent; upstream only until it is due.
- A rule's condition is also updated after an eviction was cancelled, or after a pod was deleted by others. Upstream
  does not update the condition then, which may continue to count pods that do not exist anymore.
- An evicted pod that terminates slowly gets no event about a cancelled deletion when its claim changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.devices.device_taint_eviction.evictions import (
    Eviction,
    PoolSlice,
    TaintOrigin,
    TaintRule,
    claim_eviction,
    evicting_taints,
    newest,
    pod_eviction,
)
from kcm.actors.controllers.devices.device_taint_eviction.rule_status import (
    IN_PROGRESS,
    STATUS_PERIOD,
    Effects,
    differs,
    rule_condition,
    wait_seconds,
)
from kcm.actors.controllers.devices.resource_claim.watches import USES, claim_value
from kcm.actors.controllers.shared.pod_disruption import disruption_condition
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    apply,
    delete,
    get_live,
    merge_status,
    must,
)
from kcm.protocols.conditions import find_condition
from kcm.protocols.device_taints import (
    NO_EFFECT,
    NO_EXECUTE,
    AllocatedDevice,
    DeviceTaint,
    allocated_devices,
)
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    is_deleting,
    key_of,
    make_key,
    namespace_of,
    split_key,
    uid_of,
)
from kcm.protocols.resource_claims import claim_entries, claim_name, is_reserved_for, owner_problem
from kcm.protocols.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kcm.protocols.times import describe_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "device-taint-eviction-controller"  # also of its queue, and the field manager of conditions
REASON = "DeletionByDeviceTaintManager"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
POOL = "pool"  # index of ResourceSlices, and of ResourceClaims by their allocated devices
LONGEST_WAIT = 60.0  # seconds until a planned eviction is computed again: the wall clock may be corrected
REMEMBERED = 500  # uids of evicted pods

POD, RULE = "pod", "rule"


class PodOrRule(NamedTuple):
    """Key of the queue: a pod or a DeviceTaintRule. kind: POD or RULE."""

    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


def pool_value(driver: str, pool: str) -> str:
    """Return the value of a pool in the index POOL. The name of a driver has no slash."""
    return f"{driver}/{pool}"


class _Plan(NamedTuple):
    uid: str  # of the pod
    eviction: Eviction


class DeviceTaintEvictionReconciler:
    """Reconciler of pods and DeviceTaintRules. Key: PodOrRule."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        evicted: Callable[[float], None],
        rules: Resource | None = None,
        groups: bool = False,
    ) -> None:
        """Create the reconciler.

        evicted: callback for each evicted pod; its argument is the seconds by which the eviction was late.
        rules: DeviceTaintRules in the served version if they are watched (feature gate DRADeviceTaintRules).
        groups: whether claims can be reserved for PodGroups (feature gate DRAWorkloadResourceClaims).
        """
        self._pods, self._claims, self._slices = tables[PODS], tables[RESOURCE_CLAIMS], tables[RESOURCE_SLICES]
        self._rules, self._rule_resource = None if rules is None else tables[rules], rules
        self._clock, self._log, self._evicted, self._groups = clock, log, evicted, groups
        self._plans: dict[Key, _Plan] = {}
        self._done: dict[str, None] = {}  # uids of evicted pods, the oldest first
        self._counts: dict[str, tuple[str, int]] = {}  # by rule: its uid, and the number of pods evicted because of it
        self._pending: set[str] = set()  # rules whose condition reported pending pods

    def reconcile(self, work: PodOrRule) -> Reconciliation:
        return (yield from self._sync_pod(work.key) if work.kind == POD else self._sync_rule(work.key))

    # --- pods

    def _sync_pod(self, key: Key) -> Reconciliation:
        """Plan or cancel the eviction of a pod, or evict the pod when this is due."""
        eviction = yield from self._planned(key)
        if eviction is None:
            return None
        seconds = eviction.when - self._clock.now()
        if seconds > 0:
            yield Because(f"is evicted at {describe_time(eviction.when)} because of {eviction.reason}")
            return RequeueAfter(min(seconds, LONGEST_WAIT))
        uid = self._plans[key].uid
        yield Because(f"evicts it because of {eviction.reason}")
        if not (yield from self._evict(key, uid)):
            return RequeueAfter(0.0)  # the plan has changed
        self._forget(key, uid)
        for rule in sorted(eviction.rules):
            yield Enqueue(NAME, PodOrRule(RULE, rule), after=STATUS_PERIOD)
        return None

    def _planned(self, key: Key) -> Step[Eviction | None]:
        """Compute the eviction of a pod, and update its plan. Raises UnreadableError if the pod cannot be decoded."""
        self._pods.require(key)
        pod, before = self._pods.get(key), self._plans.get(key)
        if before is not None and (pod is None or uid_of(pod) != before.uid):
            del self._plans[key]  # no event: the pod does not exist anymore
            yield from self._update_later(before.eviction)
            before = None
        if pod is None:
            yield from self._update_later()
            return None
        eviction = None if uid_of(pod) in self._done else self._eviction_of(pod)
        if eviction is None:
            if before is not None:
                del self._plans[key]
                yield Because("cancels its eviction: its devices are not tainted any more, or it tolerates the taints")
                yield _event(key, before.uid, "Cancelling deletion")
                self._log.info("Canceled pod eviction", v=3, pod=key)
            yield from self._update_later(*(() if before is None else (before.eviction,)))
            return None
        if before is None or before.eviction != eviction:
            self._plans[key] = _Plan(uid_of(pod), eviction)
            delay = eviction.when - self._clock.now()
            event = "Adding delayed pod eviction" if delay > 0 else "Adding immediate pod eviction"
            self._log.info(event, v=3, pod=key, reason=eviction.reason, delay=max(0.0, delay))
            yield from self._update_later(eviction, *(() if before is None else (before.eviction,)))
        return eviction

    def _update_later(self, *evictions: Eviction) -> Step[None]:
        """Enqueue the rules that require these evictions, after a delay in which more pods may change.

        Rules whose condition reports pending pods are enqueued as well, because it may count a pod that had no plan.
        """
        for rule in sorted({*self._pending, *(rule for eviction in evictions for rule in eviction.rules)}):
            yield Enqueue(NAME, PodOrRule(RULE, rule), after=STATUS_PERIOD)

    def _evict(self, key: Key, uid: str) -> Step[bool]:
        """Evict a pod. Return False if its eviction was cancelled or postponed while a request was in flight."""
        found = yield from must(get_live(PODS, key), but=(NotFound,))
        if not isinstance(found, Done):
            return True
        pod = decode_object(found.body)
        if uid_of(pod) != uid:
            return True  # another pod with the same name
        if not is_deleting(pod):
            if not (yield from self._is_due(key, uid)):
                return False
            yield _event(key, uid, "Marking for deletion")
            condition = disruption_condition(pod, reason=REASON, message=MESSAGE, now=self._clock.now())
            if condition is not None:
                written = yield from must(merge_status(PODS, pod, {"conditions": [condition]}), but=(NotFound,))
                if isinstance(written, NotFound):
                    return True
                if not (yield from self._is_due(key, uid)):
                    return False
            if not isinstance((yield from must(delete(PODS, pod), but=(NotFound,))), Done):
                return True
        # As upstream, a pod that others have deleted meanwhile is counted as well.
        self._count(key)
        return True

    def _is_due(self, key: Key, uid: str) -> Step[bool]:
        """Report whether the eviction of the pod is still due. It is checked after each request."""
        eviction = yield from self._planned(key)
        return eviction is not None and self._plans[key].uid == uid and eviction.when <= self._clock.now()

    def _count(self, key: Key) -> None:
        plan = self._plans.get(key)
        if plan is None:
            return
        late = self._clock.now() - plan.eviction.when
        self._log.info("Evicted pod by deleting it", v=2, pod=key, latency=late, reason=plan.eviction.reason)
        self._evicted(late)
        for rule, uid in plan.eviction.rules.items():
            known, number = self._counts.get(rule, (uid, 0))
            self._counts[rule] = (uid, number + 1 if known == uid else 1)

    def _forget(self, key: Key, uid: str) -> None:
        """Remove the plan of an evicted pod, and remember its uid: it is not evicted again while it terminates."""
        plan = self._plans.get(key)
        if plan is not None and plan.uid == uid:
            del self._plans[key]
        self._done.pop(uid, None)
        self._done[uid] = None
        if len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]

    def _eviction_of(self, pod: Object, rules: list[TaintRule] | None = None) -> Eviction | None:
        """Return when and why the pod must be evicted. rules: the DeviceTaintRules to consider; None: all."""
        if not (pod.get("spec") or {}).get("nodeName"):
            return None
        rules = self._all_rules() if rules is None else rules
        return pod_eviction(claim_eviction(self._tainted(claim, rules)) for claim in self._claims_of(pod))

    def _claims_of(self, pod: Object) -> Iterator[Object]:
        """Yield the claims that the pod uses."""
        for entry in claim_entries(pod):
            found = claim_name(pod, entry)
            if found is None or not found.name:
                continue
            claim = self._claims.get(make_key(namespace_of(pod), found.name))
            if claim is None or (found.template and owner_problem(pod, claim, accept_group=self._groups)):
                continue
            if is_reserved_for(pod, claim, accept_group=self._groups):
                yield claim

    def _tainted(
        self, claim: Object, rules: list[TaintRule]
    ) -> Iterator[tuple[AllocatedDevice, TaintOrigin, DeviceTaint]]:
        for device in self._devices(claim):
            for reason, taint in evicting_taints(device, self._newest(device.driver, device.pool), rules):
                yield device, reason, taint

    def _devices(self, claim: Object) -> tuple[AllocatedDevice, ...]:
        """Return the allocated devices of a claim; none if the claim is malformed."""
        try:
            return allocated_devices(claim)
        except ValueError as err:
            self._log.warning("allocation of a claim is malformed", key=key_of(claim), error=str(err))
            return ()

    def _newest(self, driver: str, pool: str) -> list[PoolSlice]:
        entries = self._slices.indexed_entries(POOL, pool_value(driver, pool))
        return newest(PoolSlice(entry.key, entry.facts) for entry in entries)

    # --- rules

    def _all_rules(self) -> list[TaintRule]:
        entries = () if self._rules is None else self._rules.entries()
        return [TaintRule(entry.key, entry.uid, entry.facts) for entry in entries]

    def _sync_rule(self, key: Key) -> Reconciliation:
        """Update the condition EvictionInProgress of a rule."""
        if self._rules is None or self._rule_resource is None:
            return None
        self._rules.require(key)
        rule, entry = self._rules.get(key), self._rules.entry(key)
        if rule is None or entry is None:
            self._counts.pop(key, None)
            self._pending.discard(key)
            return None
        meta = rule["metadata"]
        conditions = (rule.get("status") or {}).get("conditions")
        stored, generation = find_condition(conditions, IN_PROGRESS), meta.get("generation") or 0
        wait = wait_seconds(stored, generation, self._clock.now())
        if wait > 0:
            yield Because(f"updates its condition in {wait:.0f} s, to collect changes")
            return RequeueAfter(wait)
        uid, evicted = self._counts.get(key, (entry.uid, 0))
        condition = rule_condition(
            entry.facts.taint.effect,
            self._effects(TaintRule(key, entry.uid, entry.facts)),
            evicted=evicted if uid == entry.uid else 0,
            generation=generation,
            now=self._clock.now(),
        )
        self._pending.discard(key)
        if condition["status"] == "True":
            self._pending.add(key)
        if differs(condition, stored):
            yield Because(f"condition {IN_PROGRESS} is {condition['status']}: {condition.get('message') or 'no pods'}")
            applied = {"metadata": {"name": key, "uid": entry.uid}, "status": {"conditions": [condition]}}
            command = apply(self._rule_resource, applied, force=True, manager=NAME, subresource="status")
            yield from must(command, but=(NotFound,))
        return None

    def _effects(self, rule: TaintRule) -> Effects:
        """Count the pods that the rule evicts; for the effect None, the pods that NoExecute would evict."""
        effect = rule.facts.taint.effect
        if effect not in (NO_EXECUTE, NO_EFFECT):
            return Effects()
        taint = rule.facts.taint._replace(effect=NO_EXECUTE)
        evicting = rule._replace(facts=rule.facts._replace(taint=taint))
        allocated, pods = 0, set[Key]()
        for claim in self._claims.objects():
            selected = sum(
                rule.facts.selects(device.driver, device.pool, device.device) for device in self._devices(claim)
            )
            allocated += selected
            if selected:
                pods.update(self._pods_evicted_by(evicting, claim))
        published = 0
        if effect == NO_EFFECT:
            published = sum(self._published(rule))
        return Effects(len(pods), len({split_key(pod)[0] for pod in pods}), published, allocated)

    def _pods_evicted_by(self, rule: TaintRule, claim: Object) -> Iterator[Key]:
        for pod in self._pods.indexed(USES, claim_value(key_of(claim))):
            if not is_deleting(pod):
                eviction = self._eviction_of(pod, [rule])
                if eviction is not None and rule.name in eviction.rules:
                    yield key_of(pod)

    def _published(self, rule: TaintRule) -> Iterable[int]:
        """Yield, for each newest slice of each pool, the number of its devices that the rule selects."""
        for driver, pool in {(entry.facts.driver, entry.facts.pool) for entry in self._slices.entries()}:
            for slice_ in self._newest(driver, pool):
                yield sum(rule.facts.selects(driver, pool, device) for device in slice_.facts.devices)


def _event(key: Key, uid: str, message: str) -> Record:
    namespace, name = split_key(key)
    return Record(
        PODS.api_version, PODS.kind, namespace, name, uid, "", "Normal", "DeviceTaintManagerEviction", message
    )
