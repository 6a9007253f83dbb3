"""Fault plans in YAML files, validated before anything is started.

    seed: 7                    # of the random choices; another run with it makes the same
    faults:
      - kind: zone-silent
        start: 30s
        until: 3m
        object: zone-a
      - watch-lagging 60..90 resource=pods seconds=5      # or in a line, as the simulator prints them

Fields, kinds and patterns: runtime/faults/vocabulary.py. Times count from the start of the manager.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from kcm.runtime.faults.vocabulary import Fault, FaultKind, parse_fault
from kcm.runtime.flags.values import parse_duration
from kcm.runtime.process.yaml_texts import yaml_complaint

NOT_LIVE = {
    FaultKind.ACTOR_BROKEN: "in a running system actor-crashed is nearest",
    FaultKind.ACTOR_VANISHED: "threads of a running system do not vanish; actor-hung is nearest",
    FaultKind.LIST_STALE: "a running server has one state; watch-lagging is nearest",
    FaultKind.SERVER_RESTARTED: "restart the server by hand; partition is nearest",
    FaultKind.SERVER_AWAY: "stop the server by hand; partition is nearest",
    FaultKind.PROCESS_CRASHED: "kill the process by hand",
    FaultKind.PROCESS_PAUSED: "pause the process by hand, with kill -STOP",
    FaultKind.HTTP_HELD: "request-held is nearest",
    FaultKind.WEBHOOK_DOWN: "a running system calls its webhooks itself; end the process that serves them",
    FaultKind.WEBHOOK_SLOW: "a running system calls its webhooks itself; let the function wait",
    FaultKind.WEBHOOK_ANSWERED: "a running system calls its webhooks itself; let the function raise an exception",
    FaultKind.WEBHOOK_EXPIRED: "a running system calls its webhooks itself; replace the Secret of the certificates",
    FaultKind.CALL_HUNG: "what hangs is the code of a cloud provider; answer-lost is nearest",
}
TIMES = ("start", "until", "seconds")
WHOLE = ("most", "status", "amount")
FIELDS = tuple(name for name in Fault.__struct_fields__ if name != "cluster")


class PlanError(Exception):
    """The fault plan is invalid. One line that names the file, the fault and the reason."""


class FaultPlan(Struct, frozen=True, kw_only=True):
    seed: int
    faults: tuple[Fault, ...]


def read_plan(path: Path) -> FaultPlan:
    """Read a fault plan from a file. Raises PlanError."""
    try:
        return plan_of(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as err:
        raise PlanError(f"cannot read {path}: {err.strerror or err}") from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise PlanError(yaml_complaint(path, err)) from err
    except ValueError as err:
        raise PlanError(f"{path}: {err}") from err


def plan_of(document: Any) -> FaultPlan:
    """Return the fault plan in a parsed document. Raises ValueError."""
    if not isinstance(document, dict):
        raise ValueError("expected a mapping with `faults`")
    _only(document, ("seed", "faults"))
    seed, faults = document.get("seed", 0), document.get("faults")
    if not _is_whole(seed):
        raise ValueError(f"seed: expected a whole number, got {seed!r}")
    if not isinstance(faults, list) or not faults:
        raise ValueError("faults: expected a list with at least one fault")
    return FaultPlan(seed=seed, faults=tuple(_fault(entry, f"faults[{index}]") for index, entry in enumerate(faults)))


def _fault(entry: Any, where: str) -> Fault:
    try:
        if isinstance(entry, str):
            fault = parse_fault(entry)
        elif isinstance(entry, dict):
            fault = _fault_of(entry)
        else:
            raise ValueError(f"expected a mapping or a line of text, got {entry!r}")
        if fault.kind in NOT_LIVE:
            raise ValueError(f"{fault.kind} is for the simulator: {NOT_LIVE[fault.kind]}")
        if fault.cluster != "*":
            raise ValueError("cluster is for the simulator: a running system has faults on one cluster only")
    except ValueError as err:
        raise ValueError(f"{where}: {err}") from err
    return fault


def _fault_of(fields: dict[Any, Any]) -> Fault:
    _only(fields, FIELDS)
    if "kind" not in fields:
        raise ValueError("kind is missing")
    if fields["kind"] not in tuple(FaultKind):
        known = ", ".join(sorted(set(FaultKind) - set(NOT_LIVE)))
        raise ValueError(f"there is no kind {fields['kind']!r}; one of {known}")
    values = {name: _value(name, value) for name, value in fields.items() if name != "kind"}
    return Fault(kind=FaultKind(fields["kind"]), **values)


def _only(fields: dict[Any, Any], known: tuple[str, ...]) -> None:
    unknown = [str(name) for name in fields if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no setting; known are {', '.join(known)}")


def _value(name: str, value: Any) -> Any:
    if name in TIMES:
        return _seconds(name, value)
    if name in WHOLE:
        if not _is_whole(value):
            raise ValueError(f"{name}: expected a whole number, got {value!r}")
    elif name == "rate":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"rate: expected a number from 0 to 1, got {value!r}")
    elif not isinstance(value, str):
        raise ValueError(f"{name}: expected a pattern in quotes, got {value!r}")
    return value


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_duration(str(value))
    except ValueError:
        raise ValueError(f"{name}: expected seconds, or a duration like 1m30s, got {value!r}") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
