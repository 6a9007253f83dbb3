"""Explanation of one object: its causes in order, what each controller decided, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kcm.actors.explanation import deletion, responsible, server_objects
from kcm.actors.explanation.case import Case, distinct, grouped, is_lasting
from kcm.actors.explanation.cause import Cause, ControllerReport, Explanation, Verdict
from kcm.actors.explanation.evidence import Evidence, ReadError, time_of
from kcm.actors.explanation.kinds import controllers_of
from kcm.actors.explanation.rules import rules_of
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource

MOST_CAUSES = 20
FRESH = 60.0  # seconds after a change in which an object is under way
INTENDED = frozenset(  # codes of waits that the object's own configuration requests
    {
        "autoscaling-disabled",
        "claim-waits-for-pod",
        "device-claim-waits-for-pod",
        "manual-update",
        "node-cordoned",
        "rollout-paused",
        "suspended",
        "volume-released",
    }
)


def explain(resource: Resource, key: Key, evidence: Evidence) -> Explanation:
    """Return why the object is as it is. Blocks as long as the reads of the evidence do."""
    about = f"{resource.kind.lower()} {key}"
    try:
        obj = evidence.must_get(resource, key)
    except ReadError as err:
        cause = Cause(code="api-server-unreachable", about=about, summary=f"the API server cannot be asked: {err}")
        return _result(resource, key, evidence, "unknown", cause.summary, [cause])
    if obj is None:
        return _result(resource, key, evidence, "not found", f"{about} does not exist", [])
    case = Case(resource, obj, evidence, causes_of)
    pending = deletion.pending(case) if case.deleted is not None else rules_of(resource).pending(case)
    causes = grouped(distinct(causes_of(case)))[:MOST_CAUSES]
    if not causes and pending and _is_old(case):
        decided = responsible.decisions_of(case)
        causes = [case.cause("unexplained", f"{about} is not in its desired state: {pending}", *decided)]
    if causes:
        return _result(resource, key, evidence, _verdict(about, causes), causes[0].summary, causes)
    if pending:
        return _result(resource, key, evidence, "under way", pending, [])
    return _result(resource, key, evidence, "nothing is wrong", "it is in its desired state", [])


def causes_of(case: Case) -> Iterator[Cause]:
    """Yield the causes of one object, and of those that it waits for, the roots first."""
    if case.deleted is not None:
        yield from deletion.causes(case)
        return
    rules = rules_of(case.resource)
    found = [*server_objects.orphaned(case), *rules.causes(case)]
    if not rules.pending(case):
        yield from found
        yield from responsible.failing_keys(case)
        return
    idle = list(responsible.not_working(case))
    found = responsible.with_next_attempts(case, found)
    yield from (*idle, *found) if is_untouched(case) else (*found, *idle)
    if not found and not idle:
        yield from responsible.hindered(case)


def is_untouched(case: Case) -> bool:
    """Report whether the controller of the object has not done anything for its newest specification."""
    return not case.status or ("observedGeneration" in case.status and not case.is_observed)


def last_change(case: Case) -> float | None:
    """Return the time of the last write of the object, as its metadata shows it."""
    metadata = case.obj.get("metadata") or {}
    times = [time_of(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    times += [case.created, case.deleted]
    times += [time_of(condition.get("lastTransitionTime")) for condition in case.status.get("conditions") or ()]
    return max((at for at in times if at is not None and at <= case.now), default=None)


def _is_old(case: Case) -> bool:
    if case.deleted is not None and case.deleted > case.now:
        return False  # its grace period has not ended
    changed = last_change(case)
    return changed is not None and case.now - changed > FRESH


def _verdict(about: str, causes: Sequence[Cause]) -> Verdict:
    """Return the verdict on an object with causes.

    An object is on hold only if each cause is its own: a Deployment whose pods wait for a cordoned node is stuck.
    """
    if not is_lasting(causes):
        return "under way"
    return "on hold" if all(cause.code in INTENDED and cause.about == about for cause in causes) else "stuck"


def _result(
    resource: Resource, key: Key, evidence: Evidence, verdict: Verdict, summary: str, causes: Iterable[Cause]
) -> Explanation:
    return Explanation(
        kind=resource.kind,
        key=key,
        about=f"{resource.kind.lower()} {key}",
        at=evidence.now,
        verdict=verdict,
        summary=summary,
        causes=tuple(causes),
        controllers=tuple(controller_reports(resource, key, evidence)),
        notes=tuple(evidence.notes),
        cluster=evidence.cluster,
    )


def controller_reports(resource: Resource, key: Key, evidence: Evidence) -> Iterator[ControllerReport]:
    """Yield what each controller that cares for the object decided last, and when it looks again."""
    manager = evidence.manager
    if manager is None:
        return
    for name in dict.fromkeys((*controllers_of(resource), *manager.interested(resource.id))):
        state = evidence.controller(name)
        if state is None:
            continue
        found = responsible.trouble_of(state, now=evidence.now)
        trouble = "" if found is None else found[1]
        keys = manager.keys(name, resource.id, key)
        if not keys and name in controllers_of(resource):
            yield ControllerReport(name=name, trouble=trouble)
        for report in keys:
            where, since = next(
                (
                    (where, since)
                    for where, since in (
                        ("in work", report.taken),
                        ("queued", report.queued),
                        ("delayed", report.ended if report.due is not None else None),
                    )
                    if since is not None
                ),
                ("delayed" if report.due is not None else "idle", None),
            )
            yield ControllerReport(
                name=name,
                queue=report.queue,
                state=where,
                since=since,
                until=report.due,
                failures=report.failures,
                awaited=report.awaited,
                trouble=trouble,
                decided=report.ended,
                reasons=report.reasons,
                commands=report.commands,
                error=report.error,
                again=report.again,
            )
