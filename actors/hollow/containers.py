"""The life of one hollow container: what its status says at a moment, and when that changes next.

A status is what the last look left in the pod (`before`, None at first); looking again at the same moment changes
nothing. Times in it are whole seconds, so a duration may seem up to a second shorter than asked for.

Source: kubernetes v1.36 pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff (first restart at once, then after
10 s, doubled up to 5 min).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from protocols.objects import Object
from protocols.times import format_time, parse_time

RUNTIME = "hollow"
FIRST_BACKOFF, MOST_BACKOFF = 10.0, 300.0
KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a container does. run_seconds: None for ever. ready_after: seconds from its start."""

    run_seconds: float | None = None
    exit_code: int = 0
    ready_after: float = 0.0


FOR_EVER = Script()


class Life(NamedTuple):
    """A container's status, and the Unix seconds at which time alone changes it; None for never."""

    status: Object
    due: float | None


@lru_cache(maxsize=1024)
def image_id(image: str) -> str:
    return f"{RUNTIME}://sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def container_id(uid: str, name: str, restarts: int) -> str:
    return f"{RUNTIME}://{hashlib.sha256(f'{uid}/{name}/{restarts}'.encode()).hexdigest()}"


def backoff(restarts: int) -> float:
    """Seconds between a container's end and its next start, when it was restarted so often."""
    return 0.0 if restarts == 0 else min(MOST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(restarts - 1, 10))


def restarts_after(restart_policy: str, exit_code: int) -> bool:
    """restart_policy: of the pod, "Always", "OnFailure" or "Never"."""
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)


def live(
    container: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    script: Script,
    *,
    uid: str,
    restart_policy: str,
    now: float,
) -> Life:
    """A container of a pod that its kubelet runs. uid: the pod's."""
    known = before or {}
    state, last = known.get("state") or {}, (known.get("lastState") or {}).get("terminated")
    restarts = known.get("restartCount") or 0
    look = _Look(container, script, uid, restart_policy, now)
    if state.get("terminated"):
        return look.ended(state["terminated"], last, restarts)
    if state.get("running"):
        return look.running(state["running"], last, restarts)
    return look.started(last, restarts) if last is None else look.ended(last, last, restarts)


def completed(container: Mapping[str, Any], before: Mapping[str, Any] | None, *, uid: str, now: float) -> Object:
    """An init container that has done its work."""
    if before and (before.get("state") or {}).get("terminated"):
        return dict(before)
    over = _terminated({"startedAt": format_time(now)}, 0, at=now)
    over["containerID"] = container_id(uid, container["name"], 0)
    return {**_status(container, {"terminated": over}, None, uid=uid, restarts=0), "ready": True}


def stopped(before: Mapping[str, Any], *, exit_code: int, now: float) -> Object:
    """A container whose pod has come to its end; one that had ended before stays as it was."""
    state = before.get("state") or {}
    if state.get("terminated"):
        return dict(before)
    over = _terminated(state.get("running") or {}, exit_code, at=now)
    if before.get("containerID"):
        over["containerID"] = before["containerID"]
    return {**before, "ready": False, "started": False, "state": {"terminated": over}}


class _Look(NamedTuple):
    """One look at a container. last: how it ended the time before; restarts: how often it has been restarted."""

    container: Mapping[str, Any]
    script: Script
    uid: str
    restart_policy: str
    now: float

    def started(self, last: Mapping[str, Any] | None, restarts: int) -> Life:
        return self.running({"startedAt": format_time(self.now)}, last, restarts)

    def running(self, running: Mapping[str, Any], last: Mapping[str, Any] | None, restarts: int) -> Life:
        started = parse_time(running["startedAt"])
        dues = []
        if self.script.run_seconds is not None:
            ends = started + self.script.run_seconds
            if self.now >= ends:
                over = _terminated(running, self.script.exit_code, at=ends)
                over["containerID"] = container_id(self.uid, self.container["name"], restarts)
                return self.ended(over, last, restarts)
            dues.append(ends)
        ready_at = started + self.script.ready_after
        ready = self.now >= ready_at
        if not ready:
            dues.append(ready_at)
        status = self._status({"running": dict(running)}, last, restarts)
        return Life({**status, "ready": ready, "started": True}, min(dues, default=None))

    def ended(self, over: Mapping[str, Any], last: Mapping[str, Any] | None, restarts: int) -> Life:
        if not restarts_after(self.restart_policy, over["exitCode"]):
            return Life(self._status({"terminated": over}, last, restarts), None)
        wait = backoff(restarts)
        again = parse_time(over["finishedAt"]) + wait
        if self.now >= again:
            return self.started(over, restarts + 1)
        waiting = {
            "reason": "CrashLoopBackOff",
            "message": f"back-off {wait:.0f}s restarting failed container={self.container['name']}",
        }
        return Life(self._status({"waiting": waiting}, over, restarts), again)

    def _status(self, state: Object, last: Mapping[str, Any] | None, restarts: int) -> Object:
        return _status(self.container, state, last, uid=self.uid, restarts=restarts)


def _terminated(running: Mapping[str, Any], exit_code: int, *, at: float) -> Object:
    over: Object = {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "finishedAt": format_time(at),
    }
    if running.get("startedAt"):
        over["startedAt"] = running["startedAt"]
    return over


def _status(
    container: Mapping[str, Any], state: Object, last: Mapping[str, Any] | None, *, uid: str, restarts: int
) -> Object:
    image = container.get("image") or ""
    status = {
        "name": container["name"],
        "image": image,
        "imageID": image_id(image),
        "containerID": container_id(uid, container["name"], restarts),
        "ready": False,
        "started": False,
        "restartCount": restarts,
        "state": state,
    }
    if last is not None:
        status["lastState"] = {"terminated": dict(last)}
    return status
