"""Result of an explanation: causes, the first of which is the root."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Verdict = Literal["stuck", "on hold", "under way", "nothing is wrong", "not found", "unknown"]


class Cause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One cause.

    code: from the catalogue.
    about: the object that has it: "pod default/web-1".
    summary: one line.
    evidence: what shows it, one line each.
    controller: the controller that it concerns.
    since, next_attempt: Unix seconds; None if unknown.
    commands: to look further or to act.
    """

    code: str
    about: str
    summary: str
    evidence: tuple[str, ...] = ()
    controller: str = ""
    since: float | None = None
    next_attempt: float | None = None
    commands: tuple[str, ...] = ()


class ControllerReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of the object's key in one queue of a controller, and the latest decision about it.

    state: of the key in its queues: "idle", "queued", "delayed", "in work".
    since: Unix seconds since when the key is in this state.
    until: Unix seconds until when it is delayed.
    failures: failed reconciliations in a row.
    awaited: commands for whose outcomes it waits.
    trouble: why the controller does not work; "" if it does.
    decided: Unix seconds of the end of its latest reconciliation of the object.
    reasons, commands, error, again: of that reconciliation, see SyncDecision.
    """

    name: str
    queue: str = ""
    state: str = "idle"
    since: float | None = None
    until: float | None = None
    failures: int = 0
    awaited: tuple[str, ...] = ()
    trouble: str = ""
    decided: float | None = None
    reasons: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    error: str = ""
    again: float | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Why an object is as it is.

    about: "deployment default/web".
    at: Unix seconds.
    summary: one line.
    causes: the root first, followed by what it leads to.
    notes: what could not be read, and what limits the result.
    cluster: of the object, in a program that works on several; otherwise "".
    """

    kind: str
    key: str
    about: str
    at: float
    verdict: Verdict
    summary: str
    causes: tuple[Cause, ...] = ()
    controllers: tuple[ControllerReport, ...] = ()
    notes: tuple[str, ...] = ()
    cluster: str = ""
