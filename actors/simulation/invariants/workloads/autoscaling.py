"""Invariant of HorizontalPodAutoscalers: they scale within their bounds, and no faster than their policies permit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Fail,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
    only,
)
from kcm.protocols.messages.commands import Command, Get, Submit, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Outcome
from kcm.protocols.objects import Key, decode_object, uid_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS

SENDER = controller_name("horizontal-pod-autoscaler-controller")
MARGIN = 1.0  # seconds; tolerance at the end of the period of a policy or of a stabilization window


class _Change(NamedTuple):
    by: int
    at: float


class _Known(Struct):
    """Observations of one autoscaler by one incarnation of the controller.

    spec: spec of the autoscaler in the latest sync.
    window: shortest stabilization window for scaling down so far, in seconds. A longer window does not restore
        recommendations that a shorter one has dropped.
    current: replicas of the target, as read in the latest sync; None before.
    started: replicas of the target when they were read first, and the time of this.
    changes: successful changes of the scale.
    unsure_until: virtual time until which the policies are not checked, because other changes may count.
    """

    spec: Mapping[str, Any]
    window: float
    current: int | None = None
    started: _Change | None = None
    changes: list[_Change] = field(default_factory=list)
    unsure_until: float = -math.inf
    is_writing: bool = False  # the next Get is part of an update, and does not begin a sync


class ScalesWithinBounds:
    """Invariant: autoscalers scale within their bounds and their policies.

    Each update of a scale is checked against the spec of the autoscaler and the replicas that the same sync has read:

    - The new number is within minReplicas and maxReplicas. A number outside these bounds may be corrected at once.
    - The policies of spec.behavior permit it, given all changes by this incarnation within their periods. Without
      spec.behavior, the number at most doubles, or rises to 4.
    - It does not fall below the number of replicas that the incarnation observed first, within the stabilization window
      for scaling down. A new incarnation starts with this number as its only recommendation.

    window: default stabilization window for scaling down, in seconds.
    """

    name = "autoscalers scale within their bounds and policies"
    observes = (ProcessStarted, only(Submitted, SENDER), only(OutcomeReceived, SENDER), only(Admitted, SENDER))

    def __init__(self, cluster: SimulatedCluster, *, window: float) -> None:
        self._clock, self._window = cluster.clock, window
        self._known: dict[str, dict[str, _Known]] = {}  # by process, and by the autoscaler's uid
        self._looking: dict[
            tuple[str, str, Key], str
        ] = {}  # by process, resource and key of the target: uid of the autoscaler
        self._incarnations: dict[str, int] = {}  # by process

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process):
                self._known[process] = {}
                self._incarnations.pop(process, None)
            case Admitted(process, name, incarnation) if name == SENDER:
                if self._incarnations.get(process) != incarnation:  # otherwise the dispatcher was restarted
                    self._known[process] = {}
                    self._incarnations[process] = incarnation
            case Submitted(process, system, submit) if submit.sender == SENDER:
                self._submitted(process, system, submit, fail)
            case OutcomeReceived(process, _, sender, command, outcome) if sender == SENDER and command is not None:
                self._settled(process, command, outcome)

    def _submitted(self, process: str, system: ControllerSystem, submit: Submit, fail: Fail) -> None:
        for command in submit.commands:
            if isinstance(command, Get) and command.subresource == "scale":
                self._begun(process, system, submit.key, command)
            if isinstance(command, Update) and command.subresource == "scale":
                known = self._of(process, command)
                if known is not None and known.current is not None:
                    known.is_writing = True
                    replicas = decode_object(command.body)["spec"]["replicas"]
                    for problem in self._problems(known, known.current, replicas):
                        fail(f"{submit.key} scales from {known.current} to {replicas}: {problem}")

    def _begun(self, process: str, system: ControllerSystem, key: Key, command: Get) -> None:
        lister = system.tables.get(HORIZONTAL_POD_AUTOSCALERS.id)
        entry = None if lister is None else lister.get(key)
        if entry is None:
            return
        before = self._of(process, command)
        if before is not None and before.is_writing:
            before.is_writing = False
            return
        autoscaler = decode_object(entry.raw)
        uid, spec = uid_of(autoscaler), autoscaler["spec"]
        window = self._window_of(spec)
        known = self._known[process].setdefault(uid, _Known(spec, window))
        if known.spec.get("behavior") != spec.get(
            "behavior"
        ):  # the controller kept changes only for the periods of the old policies
            longest = max([0.0, *(rule["periodSeconds"] for rule in _policies(spec))])
            known.unsure_until = self._clock.monotonic() + longest
        known.spec, known.current, known.window = spec, None, min(known.window, window)
        self._looking[process, command.resource, command.key] = uid

    def _of(self, process: str, command: Get | Update) -> _Known | None:
        uid = self._looking.get((process, command.resource, command.key), "")
        return self._known[process].get(uid)

    def _settled(self, process: str, command: Command, outcome: Outcome) -> None:
        if not isinstance(command, Get | Update) or command.subresource != "scale":
            return
        known, now = self._of(process, command), self._clock.monotonic()
        if known is None:
            return
        if isinstance(command, Get):
            if isinstance(outcome, Done):
                known.current = (decode_object(outcome.body).get("spec") or {}).get("replicas") or 0
                known.started = known.started or _Change(known.current, now)
            return
        if isinstance(outcome, Done):
            known.is_writing = False
        if isinstance(outcome, Done) and known.current is not None:
            known.changes.append(_Change(decode_object(command.body)["spec"]["replicas"] - known.current, now))
        elif not isinstance(outcome, Conflict):
            known.unsure_until = now + 2 * max([0.0, *(rule["periodSeconds"] for rule in _policies(known.spec))])

    def _window_of(self, spec: Mapping[str, Any]) -> float:
        down = (spec.get("behavior") or {}).get("scaleDown") or {}
        return float(down.get("stabilizationWindowSeconds", self._window))

    def _problems(self, known: _Known, current: int, replicas: int) -> Iterable[str]:
        spec, now = known.spec, self._clock.monotonic()
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        if not lowest <= replicas <= highest:
            yield f"its bounds are {lowest} to {highest}"
        if not lowest <= current <= highest:
            return
        behavior = spec.get("behavior")
        if behavior is None and replicas > max(2 * current, 4):
            yield "without spec.behavior, at most twice the current number, or 4, is permitted"
        if behavior is not None and now > known.unsure_until:
            yield from _too_fast(behavior, known.changes, current, replicas, now)
        started = known.started
        if started is not None and now < started.at + known.window - MARGIN and replicas < min(current, started.by):
            yield f"{started.by} replicas were observed {now - started.at:.1f} s ago, within the stabilization window"


def _too_fast(
    behavior: Mapping[str, Any], changes: Iterable[_Change], current: int, replicas: int, now: float
) -> Iterable[str]:
    """Yield a text if the policies of spec.behavior forbid a change.

    One policy must permit it if selectPolicy is Max; all of them must if it is Min.

    changes: earlier changes.
    current, replicas: number of replicas before and after the change.
    now: virtual time.
    """
    up = replicas > current
    rules = behavior["scaleUp" if up else "scaleDown"]
    allowed = []
    for policy in rules["policies"]:
        recent = [change.by for change in changes if change.at > now - policy["periodSeconds"]]
        surely = [change.by for change in changes if change.at > now - policy["periodSeconds"] + MARGIN]
        befores = {current - sum(recent), current - sum(surely)}
        allowed.append(any(_allows(policy, before, replicas, up=up) for before in befores))
    if rules["selectPolicy"] == "Disabled" or not (all if rules["selectPolicy"] == "Min" else any)(allowed):
        past = [(change.by, round(now - change.at, 1)) for change in changes]
        yield f"its policies forbid this: {rules}, after {past}"


def _allows(policy: Mapping[str, Any], before: int, replicas: int, *, up: bool) -> bool:
    value = policy["value"]
    if policy["type"] == "Percent":
        limit = math.ceil(before * (1 + value / 100)) if up else int(before * (1 - value / 100))
    else:
        limit = before + value if up else before - value
    return replicas <= limit if up else replicas >= limit


def _policies(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    behavior = spec.get("behavior") or {}
    return [rule for way in ("scaleUp", "scaleDown") for rule in (behavior.get(way) or {}).get("policies") or ()]
