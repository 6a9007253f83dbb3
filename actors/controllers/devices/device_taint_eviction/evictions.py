"""Times at which pods must be evicted, and the taints that cause this.

Source: kubernetes v1.36 pkg/controller/devicetainteviction/device_taint_eviction.go (claimEvictionTime,
allEvictingDeviceTaints, podEvictionTime).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.device_taints import (
    NO_EXECUTE,
    AllocatedDevice,
    DeviceTaint,
    RuleFacts,
    SliceFacts,
    tolerates_device_taint,
)


class TaintOrigin(NamedTuple):
    """Origin of a taint that causes an eviction: a DeviceTaintRule, or a device in a ResourceSlice.

    rule, uid: name and uid of the DeviceTaintRule; "" if the taint is in a ResourceSlice.
    driver, pool, device: the tainted device; "" if the taint is in a DeviceTaintRule.
    position: index of the taint in the taints of the device.
    slice: name of the ResourceSlice, for messages; "" if the taint is in a DeviceTaintRule.
    """

    rule: str = ""
    uid: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    position: int = 0
    slice: str = ""

    def __str__(self) -> str:
        if self.rule:
            return f"DeviceTaintRule {self.rule}"
        return f"ResourceSlice {self.slice} {self.driver}/{self.pool}/{self.device} taint #{self.position}"


def _order(reason: TaintOrigin) -> tuple[bool, TaintOrigin]:
    return (not reason.rule, reason)  # rules first


class Eviction(NamedTuple):
    """Eviction of the pods that use a claim, or of one pod.

    when: time at which the pods are deleted, in Unix seconds.
    reasons: all taints that require the eviction: first those of rules, by name of the rule, then those in slices, by
        driver, pool, device and position.
    """

    when: float
    reasons: tuple[TaintOrigin, ...]

    @property
    def reason(self) -> str:
        return ", ".join(map(str, self.reasons))

    @property
    def rules(self) -> dict[str, str]:
        """Return the DeviceTaintRules that require the eviction: uid by name."""
        return {reason.rule: reason.uid for reason in self.reasons if reason.rule}


class TaintRule(NamedTuple):
    """DeviceTaintRule that selects devices."""

    name: str
    uid: str
    facts: RuleFacts


class PoolSlice(NamedTuple):
    """ResourceSlice of a pool."""

    name: str
    facts: SliceFacts


def newest(slices: Iterable[PoolSlice]) -> list[PoolSlice]:
    """Return the slices of a pool that have the highest generation, ordered by name. The others are outdated."""
    found = sorted(slices)
    generation = max((slice_.facts.generation for slice_ in found), default=0)
    return [slice_ for slice_ in found if slice_.facts.generation == generation]


def evicting_taints(
    device: AllocatedDevice, slices: Sequence[PoolSlice], rules: Iterable[TaintRule]
) -> Iterator[tuple[TaintOrigin, DeviceTaint]]:
    """Yield the NoExecute taints of a device.

    A rule selects a device by its name, even if no slice contains the device.

    slices: the slices of the device's pool with the highest generation.
    """
    for name, facts in slices:
        if device.device in facts.devices:
            for tainted in facts.evicting:
                if tainted.device == device.device:
                    yield (
                        TaintOrigin("", "", facts.driver, facts.pool, device.device, tainted.position, name),
                        tainted.taint,
                    )
            break
    for rule in rules:
        if rule.facts.taint.effect == NO_EXECUTE and rule.facts.selects(device.driver, device.pool, device.device):
            yield TaintOrigin(rule.name, rule.uid), rule.facts.taint


def eviction_time(tolerations: Iterable[Mapping[str, Any]], taint: DeviceTaint) -> float | None:
    """Return when a NoExecute taint requires an eviction; None: never.

    The result is in Unix seconds. Only tolerations with the effect NoExecute count. Of the tolerations that match the
    taint, the shortest tolerationSeconds applies; a matching toleration without tolerationSeconds tolerates the taint
    forever. A taint without timeAdded is ignored; API servers set timeAdded of every stored taint.
    """
    if taint.added is None:
        return None
    shortest: float | None = None
    for toleration in tolerations:
        if toleration.get("effect") == NO_EXECUTE and tolerates_device_taint(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            if seconds is None:
                return None
            shortest = max(0.0, seconds) if shortest is None else min(shortest, max(0.0, seconds))
    return taint.added + (shortest or 0.0)


def claim_eviction(tainted: Iterable[tuple[AllocatedDevice, TaintOrigin, DeviceTaint]]) -> Eviction | None:
    """Return the earliest eviction that the taints of a claim's devices require; None if no taint requires one."""
    times: dict[TaintOrigin, float] = {}
    for device, reason, taint in tainted:
        when = eviction_time(device.tolerations, taint)
        if when is not None:
            times[reason] = min(when, times.get(reason, when))
    return Eviction(min(times.values()), tuple(sorted(times, key=_order))) if times else None


def pod_eviction(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """Return the eviction of a pod from those of its claims: at the earliest time, for the reasons of all claims."""
    found = [eviction for eviction in evictions if eviction is not None]
    if not found:
        return None
    reasons = {reason for eviction in found for reason in eviction.reasons}
    return Eviction(min(eviction.when for eviction in found), tuple(sorted(reasons, key=_order)))
