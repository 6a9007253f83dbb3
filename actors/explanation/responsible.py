"""Causes in the manager: controllers that do not work, and keys that wait or fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kcm.actors.explanation.case import Case
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.kinds import controllers_of
from kcm.actors.explanation.manager_state import ControllerState, KeyReport
from kcm.actors.explanation.refusals import code_of, refused

CRASH_LOOP = 3  # recent failures
LONG_BUSY = 30.0  # seconds with the same message
LONG_WAIT = 30.0  # seconds in a queue
FAILURES = 3  # failed reconciliations in a row that count as a cause
LASTING = 1.0  # seconds of backoff, from which on failures are not transient
HELD = 5.0  # seconds that a command has waited for a limit


def not_working(case: Case, names: Iterable[str] = ()) -> Iterator[Cause]:
    """Yield why the controllers of the object do not work at all.

    names: of other controllers than those of its kind.
    """
    manager = case.evidence.manager
    names = tuple(names) or controllers_of(case.resource)
    if manager is None or not names:
        return
    leadership = manager.leadership()
    if leadership.draining:
        yield case.cause("manager-draining", "the manager is shutting down, and begins nothing more")
    if leadership.elects and not leadership.leading:
        yield from _without_lease(case)
        return
    for name in names:
        state = case.evidence.controller(name)
        if state is not None:
            yield from _troubles(case, state)


def _without_lease(case: Case) -> Iterator[Cause]:
    manager = case.evidence.manager
    assert manager is not None
    state = manager.leadership()
    if state.failure:
        yield case.cause(
            "lease-not-acquired",
            "no controller of this manager works: it cannot acquire the lease",
            state.failure,
            since=state.failing_since,
        )
    elif state.holder:
        yield case.cause(
            "lease-held-elsewhere",
            f"this manager stands by: {state.holder} has the lease, and has not done it either",
            f"holder {state.holder}, this manager is {state.identity}",
            commands=("kubectl get lease -n kube-system kube-controller-manager -o yaml",),
        )
    else:
        yield case.cause("lease-not-acquired", "no controller of this manager works: it has no lease yet")


def trouble_of(state: ControllerState, *, now: float) -> tuple[str, str, tuple[str, ...]] | None:
    """Return (code, summary, evidence) if a controller does not work, None if it does."""
    name = state.name
    if not state.enabled:
        return "controller-disabled", f"{name} is disabled", ()
    if state.elsewhere:
        return "lease-held-elsewhere", f"replica {state.elsewhere} runs {name}, and has not done it either", ()
    if state.elsewhere is not None:
        return "lease-not-acquired", f"no replica runs {name}: its group has no holder", ()
    if state.gave_up:
        return "controller-gave-up", f"{name} failed too often and is left stopped", (state.last_error,)
    if state.failures >= CRASH_LOOP:
        return "controller-crash-looping", f"{name} fails again and again", (state.last_error,)
    if state.paused:
        return "controller-paused", f"{name} is paused", ()
    if state.busy_since is not None and now - state.busy_since > LONG_BUSY:
        seconds = now - state.busy_since
        return "controller-hung", f"{name} has been handling one message for {seconds:.0f} s", ()
    if not state.alive:
        return "controller-down", f"{name} is not running now", (state.last_error,)
    if state.denied:
        return "controller-denied", f"the API server denies {name} a right: {state.denied[0]}", state.denied[1:]
    if not state.ready and state.waiting_for:
        waiting = ", ".join(state.waiting_for)
        return "controller-waits-for-tables", f"{name} waits for complete tables of {waiting}", state.tables
    return None


def _troubles(case: Case, state: ControllerState) -> Iterator[Cause]:
    trouble = trouble_of(state, now=case.now)
    if trouble is not None:
        code, summary, evidence = trouble
        yield case.cause(code, summary, *evidence, controller=state.name, since=state.busy_since)
    held = next((held for held in state.held if held.endswith(f" {case.key}")), None)
    if held is not None:
        yield case.cause(
            "key-held-back",
            f"{state.name} holds {case.key} back, because reconciling it hung",
            f"held back: {held}",
            controller=state.name,
        )


def hindered(case: Case) -> Iterator[Cause]:
    """Yield what hinders working controllers: failures of this key, stale tables, limits and queues."""
    manager = case.evidence.manager
    if manager is None:
        return
    names = dict.fromkeys((*controllers_of(case.resource), *manager.interested(case.resource.id)))
    for name in names:
        state = case.evidence.controller(name)
        if state is None or not state.enabled or not state.alive:
            continue
        for key in manager.keys(name, case.resource.id, case.key):
            yield from _failing(case, state, key)
        if name in controllers_of(case.resource):
            yield from _stale(case, state)
    for name, key in _reports(case):
        state = case.evidence.controller(name)
        if state is not None:
            yield from _waiting(case, state, key)


def braked(case: Case) -> Iterator[Cause]:
    """Yield the storm brake, if it is engaged."""
    manager = case.evidence.manager
    leadership = manager.leadership() if manager is not None else None
    if leadership is not None and leadership.brake:
        yield case.cause(
            "storm-brake",
            f"the storm brake holds deletions and evictions back: {leadership.brake}",
            since=leadership.brake_since,
        )


def _waiting(case: Case, state: ControllerState, key: KeyReport) -> Iterator[Cause]:
    """Yield why a key waits: for the storm brake, for a rate limit, for the API server, or in its queue."""
    now, name = case.now, state.name
    if key.taken is not None and key.awaited and now - key.taken > HELD:
        held = list(braked(case)) if any(command.startswith("delete") for command in key.awaited) else []
        yield from held
        seconds = now - key.taken
        limited = f"{state.throttled} commands of client {state.client} wait for its rate limit"
        if not held and (state.throttled or seconds > LONG_WAIT):
            yield case.cause(
                "rate-limited" if state.throttled else "waits-for-server",
                f"{name} has waited {seconds:.0f} s for: {', '.join(key.awaited[:3])}",
                limited if state.throttled else "",
                controller=name,
                since=key.taken,
                commands=(f"run-kcm ctl rate client {state.client} 50",) if state.throttled else (),
            )
    elif key.queued is not None and now - key.queued > LONG_WAIT:
        yield case.cause(
            "rate-limited" if state.throttled else "waits-in-queue",
            f"{case.key} has waited in queue {key.queue} of {name} for {now - key.queued:.0f} s"
            + (f", and {state.throttled} commands wait for its rate limit" if state.throttled else ""),
            controller=name,
            since=key.queued,
        )


def with_next_attempts(case: Case, causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes; those of the object itself with the time at which its controller looks at it again."""
    due, name = None, ""
    for controller, report in _reports(case):
        if report.due is not None and (due is None or report.due < due):
            due, name = report.due, controller
    return [
        replace(cause, next_attempt=due, controller=cause.controller or name)
        if due is not None and cause.about == case.about and cause.next_attempt is None
        else cause
        for cause in causes
    ]


def decisions_of(case: Case) -> list[str]:
    """Return what the controllers of the object decided about it last, one line each."""
    lines = []
    for controller, report in _reports(case):
        lines += [f"{controller}: {reason}" for reason in report.reasons]
        lines += [f"{controller} sent {command}" for command in report.commands]
        if report.error:
            lines.append(f"{controller} failed: {report.error}")
    return lines


def _reports(case: Case) -> Iterator[tuple[str, KeyReport]]:
    """Yield the reports of the object's key in the queues of its own controllers."""
    manager = case.evidence.manager
    for name in controllers_of(case.resource) if manager is not None else ():
        assert manager is not None
        for report in manager.keys(name, case.resource.id, case.key):
            yield name, report


def failing_keys(case: Case) -> Iterator[Cause]:
    """Yield why controllers cannot reconcile the object, whatever its state looks like."""
    manager = case.evidence.manager
    if manager is None:
        return
    for name in manager.interested(case.resource.id):
        state = case.evidence.controller(name)
        if state is None:
            continue
        for key in manager.keys(name, case.resource.id, case.key):
            yield from _failing(case, state, key)


def _failing(case: Case, state: ControllerState, key: KeyReport) -> Iterator[Cause]:
    if not key.error or not key.failures:
        return
    name, attempts = state.name, f"failed {key.failures} times in a row"
    message = next((text for text in key.refusals if code_of(text)[0] != "write-refused"), key.error)
    if code_of(message)[0] != "write-refused":
        for cause in refused(case, message, what=f"a write of {name}", shown_by=f"{attempts}: {key.error}"):
            yield case.cause(
                cause.code,
                cause.summary,
                *cause.evidence,
                controller=name,
                since=key.ended,
                next_attempt=key.due,
                commands=cause.commands,
            )
        return
    if key.failures < FAILURES or (key.again is not None and key.again < LASTING):
        return  # conflicts with other writers are normal, and the retries follow each other within milliseconds
    yield case.cause(
        "reconcile-fails",
        f"{name} cannot reconcile it: {key.error}",
        attempts,
        *key.commands,
        controller=name,
        since=key.ended,
        next_attempt=key.due,
    )


def _stale(case: Case, state: ControllerState) -> Iterator[Cause]:
    for trouble in state.tables:
        yield case.cause(
            "stale-table", f"{state.name} depends on a table that is out of date: {trouble}", controller=state.name
        )
