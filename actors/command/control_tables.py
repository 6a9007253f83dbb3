"""Tables of controllers, zones and API clients for the terminal, aligned as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.times import human_duration

GAP = 3  # spaces between two columns
NONE = "<none>"
Row = tuple[str, ...]

CONTROLLERS = ("NAME", "STATE", "QUEUED", "DELAYED", "IN WORK", "OLDEST", "FAILING", "RESTARTS", "AGE")
WIDE = ("RECONCILED", "FAILED", "MAILBOX", "CLIENT", "REASON")
ZONES = ("NAME", "STATE", "NODES", "READY", "WAITING", "RATE", "PAUSED", "RELEASED", "NEXT")
CLIENTS = ("NAME", "QPS", "BURST", "USED", "WAITING", "THROTTLED")
BRAKE = ("ENGAGED", "SINCE", "HELD", "PASSED", "RATE", "LIMIT", "REASON")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, left-aligned and without trailing spaces."""
    cells = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [
        (" " * GAP).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]


def controller_row(state: Mapping[str, Any]) -> Row:
    failures = state["failuresInARow"]
    return (
        state["name"],
        shown_state(state),
        str(state["queued"]),
        str(state["delayed"]),
        str(state["inWork"]),
        age(state["longestWaitingSeconds"]) if state["queued"] else "-",
        str(failures) if failures else "-",
        str(state["restarts"]),
        age(state["upSeconds"]),
    )


def wide_controller_row(state: Mapping[str, Any]) -> Row:
    more = (str(state["reconciled"]), str(state["failed"]), str(state["mailbox"]), state["client"])
    return (*controller_row(state), *more, state["reason"] or state["problem"] or NONE)


def shown_state(state: Mapping[str, Any]) -> str:
    """Return the state with the condition of the health check, as Running (failing)."""
    shown: str = state["state"]
    return f"{shown} ({state['condition']})" if state["condition"] and state["state"] == "Running" else shown


def zone_row(zone: Mapping[str, Any]) -> Row:
    rate = "-" if zone["qps"] is None else f"{number(zone['qps'])}/s"
    return (
        zone["name"],
        zone["state"],
        str(zone["nodes"]),
        str(zone["ready"]),
        str(zone["waiting"]),
        f"{rate} (set)" if zone["isSet"] else rate,
        str(zone["paused"]).lower(),
        str(zone["released"]),
        age(zone["nextInSeconds"]) if zone["waiting"] else "-",
    )


def client_row(client: Mapping[str, Any]) -> Row:
    qps = "unlimited" if client["qps"] < 0 else number(client["qps"])
    return (
        client["name"],
        f"{qps} (set)" if client["isSet"] else qps,
        str(client["burst"]),
        f"{client['used']:.0%}",
        str(client["waiting"]),
        str(client["throttled"]),
    )


def brake_row(brake: Mapping[str, Any]) -> Row:
    limit = f"{brake['limit']} in {age(brake['windowSeconds'])}" if brake["limit"] else "off"
    return (
        str(brake["engaged"]).lower(),
        age(brake["engagedSeconds"]),
        str(brake["held"]),
        str(brake["passed"]),
        f"{number(brake['brakedQps'])}/s",
        limit,
        brake["reason"] or NONE,
    )


def controller_lines(details: Mapping[str, Any]) -> list[str]:
    """Return the description of one controller, as `kubectl describe` prints an object."""
    state = details["controller"]
    facts = {
        "Name": state["name"],
        "State": shown_state(state),
        "Reason": state["reason"],
        "Problem": state["problem"],
        "Client": state["client"],
        "Age": age(state["upSeconds"]),
        "Restarts": str(state["restarts"]),
        "Last error": state["lastError"],
        "Reconciled": f"{state['reconciled']} ({state['failed']} failed)",
        "Waits for": ", ".join(state["waitingForTables"]),
        "Doing": f"{state['doing']} for {age(state['busySeconds'])}" if state["doing"] else "",
    }
    lines = [f"{name + ':':<14}{value}" for name, value in facts.items() if value]
    head: tuple[str, ...] = ("QUEUE", "QUEUED", "DELAYED", "IN WORK", "OLDEST", "FAILING", "LAST SUCCESS", "LAST ERROR")
    lines += ["", *table(head, [_queue_row(queue) for queue in state["queues"]])]
    if state["passes"]:
        head = ("PASS", "RUNNING", "DUE IN", "FAILING", "LAST SUCCESS", "LAST ERROR")
        lines += ["", *table(head, [_pass_row(periodic) for periodic in state["passes"]])]
    for held in state["held"]:
        hangs = "hangs" if held["hangs"] else "hung"
        lines.append(f"Held back: {held['queue']} {held['key']} {hangs} for {age(held['seconds'])}")
    for right in state["denied"]:
        lines.append(f"Denied: {right['verb']} {right['resource']}: {right['message']}")
    head = ("ACTOR", "ALIVE", "MAILBOX", "HANDLED", "BUSY", "RESTARTS", "AGE", "LAST ERROR")
    return [*lines, "", *table(head, [_actor_row(actor) for actor in details["actors"]])]


def _queue_row(queue: Mapping[str, Any]) -> Row:
    return (
        queue["name"],
        str(queue["queued"]),
        str(queue["delayed"]),
        str(queue["inWork"]),
        f"{queue['longestWaiting']} {age(queue['longestWaitingSeconds'])}" if queue["longestWaiting"] else "-",
        str(queue["failuresInARow"] or "-"),
        _ago(queue["sinceSuccessSeconds"]),
        queue["lastError"] or NONE,
    )


def _pass_row(periodic: Mapping[str, Any]) -> Row:
    return (
        periodic["name"],
        age(periodic["runningSeconds"]) if periodic["runningSeconds"] else "-",
        age(periodic["dueInSeconds"]),
        str(periodic["failuresInARow"] or "-"),
        _ago(periodic["sinceSuccessSeconds"]),
        periodic["lastError"] or NONE,
    )


def _actor_row(actor: Mapping[str, Any]) -> Row:
    return (
        actor["name"],
        str(actor["alive"]).lower(),
        str(actor["mailbox"]),
        str(actor["handled"]),
        age(actor["busySeconds"]) if actor["busySeconds"] else "-",
        str(actor["restarts"]),
        age(actor["upSeconds"]),
        actor["lastError"] or NONE,
    )


def age(seconds: float | None) -> str:
    return "-" if seconds is None else human_duration(seconds)


def _ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{human_duration(seconds)} ago"


def number(value: float) -> str:
    return f"{value:g}"
