"""Lifecycle of a hollow container: its status at a given time, and the time of the next change.

The input is the status that the last sync stored in the pod (`before`, None at first); a second sync at the same time
changes nothing. Times in the status are whole seconds, so a duration may appear up to a second shorter than requested.
A Memory contains what a kubelet keeps only in memory, as upstream.

Source: kubernetes v1.36 pkg/kubelet/kuberuntime/kuberuntime_manager.go (computePodActions, doBackOff), kubelet_pods.go
(convertToAPIContainerStatuses), status/status_manager.go (TerminatePod). The first restart is immediate, the next after
10 s, doubled up to 5 min; the backoff is reset once a container has run for 10 min.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.hollow.kubelet.container_runs import FOR_EVER, Script, Scripts
from kcm.actors.hollow.kubelet.images import PodEvent, Pull, hindrance
from kcm.actors.hollow.kubelet.probes import first_verdict, probe_of, readiness
from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Object, metadata, uid_of
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.scheduling.backoff import Backoff

RUNTIME = "hollow"
BACKOFF = Backoff(first=10.0, most=300.0)
CALM = 600.0  # seconds of one run after which earlier failures are forgotten
KILLED = 137
CRASH_LOOP = "CrashLoopBackOff"
NOT_STARTED = {
    "exitCode": KILLED,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


class Memory(NamedTuple):
    """State of a container that is not part of its status. forgiven: restarts that no longer count for its backoff."""

    pull: Pull | None = None
    forgiven: int = 0


NOTHING = Memory()


class PodContext(NamedTuple):
    """Values that all containers of a pod share.

    unpullable: patterns of images that cannot be pulled.
    now: Unix seconds.
    resized: containers that must be restarted because their resources changed.
    """

    pod: Object
    uid: str
    restart_policy: str
    unpullable: tuple[str, ...]
    now: float
    resized: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Return the pod's name as the kubelet writes it in messages."""
        meta = metadata(self.pod)
        return f"{meta.get('name', '')}_{meta.get('namespace', '')}({self.uid})"


def pod_context(
    pod: Object, *, unpullable: tuple[str, ...] = (), now: float, resized: frozenset[str] = frozenset()
) -> PodContext:
    return PodContext(pod, uid_of(pod), pod["spec"].get("restartPolicy") or "Always", unpullable, now, resized)


class Life(NamedTuple):
    """Status of a container, and the Unix seconds of its next change by time alone; None for never."""

    status: Object
    due: float | None
    memory: Memory = NOTHING
    events: Sequence[PodEvent] = ()


@bounded_cache(1024)
def image_id(image: str) -> str:
    return f"{RUNTIME}://sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def container_id(uid: str, name: str, restarts: int) -> str:
    return f"{RUNTIME}://{hashlib.sha256(f'{uid}/{name}/{restarts}'.encode()).hexdigest()}"


def backoff(restarts: int) -> float:
    """Return the seconds between a container's end and its next start, after this number of restarts."""
    return 0.0 if restarts <= 0 else BACKOFF.delay(restarts - 1)


def restarts_after(container: Mapping[str, Any], restart_policy: str, exit_code: int) -> bool:
    """Report whether a container is restarted. The container's policy takes precedence over restart_policy, the pod's.

    Source: pkg/api/v1/pod/util.go, ContainerShouldRestart.
    """
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if codes and (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or restart_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def live(
    container: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    scripts: Scripts,
    context: PodContext,
    memory: Memory = NOTHING,
) -> Life:
    """Return the present status of a container that its kubelet runs, and the time of the next change."""
    return _Look(container, before or {}, scripts, context, memory).life()


def initialising(container: Mapping[str, Any], before: Mapping[str, Any] | None) -> Object:
    """Return the status of a container that waits for the init containers before it."""
    if before and before.get("containerID"):
        return dict(before)
    return not_started(container, "PodInitializing")


def not_started(container: Mapping[str, Any], reason: str) -> Object:
    """Return the status of a container that has never run."""
    return _status(container, {"waiting": {"reason": reason}}, None, identity=None, restarts=0)


def stopped(before: Mapping[str, Any], *, exit_code: int, now: float, initialised: bool = True) -> Object:
    """Return the status of a container whose pod has terminated.

    A container that had already terminated keeps its status, and so does one that never ran because the pod was not
    initialised.
    """
    state = before.get("state") or {}
    last = (before.get("lastState") or {}).get("terminated")
    if state.get("terminated"):
        return dict(before)
    calm = {**before, "ready": False, "started": False}
    if state.get("running"):
        over = _terminated(state["running"], exit_code, at=now)
        if before.get("containerID"):
            over["containerID"] = before["containerID"]
        return {**calm, "state": {"terminated": over}}
    if last:
        calm.pop("lastState")
        return {**calm, "state": {"terminated": last}}
    return {**calm, "state": {"terminated": dict(NOT_STARTED)}} if initialised else dict(before)


class _Look:
    """Computation of a container's status at one moment."""

    __slots__ = ("_before", "_container", "_context", "_events", "_forgiven", "_now", "_pull", "_scripts")

    def __init__(
        self,
        container: Mapping[str, Any],
        before: Mapping[str, Any],
        scripts: Scripts,
        context: PodContext,
        memory: Memory,
    ) -> None:
        self._container, self._before, self._scripts, self._context = container, before, scripts, context
        self._pull, self._forgiven, self._now = memory.pull, memory.forgiven, context.now
        self._events: list[PodEvent] = []

    def life(self) -> Life:
        before = self._before
        state, last = before.get("state") or {}, (before.get("lastState") or {}).get("terminated")
        restarts = before.get("restartCount") or 0
        if state.get("terminated"):
            return self._ended(state["terminated"], last, restarts)
        if state.get("running"):
            if before.get("image") != self._container.get("image"):
                return self._replaced(state["running"], restarts, "definition changed, will be restarted")
            if self._container["name"] in self._context.resized:
                return self._replaced(state["running"], restarts, "resize requires restart")
            return self._running(state["running"], last, restarts)
        if last is None:
            return self._begin(None, restarts)
        if self._waits_for() != CRASH_LOOP:
            return self._begin(last, restarts + 1)
        return self._ended(last, last, restarts)

    def _waits_for(self) -> str:
        waiting = (self._before.get("state") or {}).get("waiting") or {}
        return waiting.get("reason") or ""

    def _begin(self, last: Mapping[str, Any] | None, restarts: int) -> Life:
        """Start the container and increment its restart count, or wait if its image cannot be pulled."""
        context = self._context
        waiting = hindrance(self._container, context.unpullable, self._pull, shown=self._waits_for(), now=self._now)
        if waiting is None:
            self._pull = None
            return self._running({"startedAt": format_time(self._now)}, last, restarts)
        self._pull = waiting.pull
        self._events += waiting.events
        shown = restarts - 1 if last is not None else restarts
        return self._life(waiting.state, last, shown, waiting.due, ran=last is not None)

    def _replaced(self, running: Mapping[str, Any], restarts: int, why: str) -> Life:
        """Restart the container because its spec changed, whatever the restart policy."""
        name = self._container["name"]
        self._record("Normal", "Killing", f"Container {name} {why}")
        return self._begin(self._over(running, 0, restarts, at=self._now), restarts + 1)

    def _running(self, running: Mapping[str, Any], last: Mapping[str, Any] | None, restarts: int) -> Life:
        script, container = self._scripts(restarts), self._container
        probed = any(probe in container for probe in _PROBES)
        if script is FOR_EVER and not probed:
            return self._life({"running": dict(running)}, last, restarts, None, ready=True, started=True)
        begun = parse_time(running["startedAt"])
        age = self._now - begun
        ends: list[tuple[float, str]] = [] if script.run_seconds is None else [(script.run_seconds, "")]
        up = 0.0  # when startup has finished
        if probed:
            up, killed = _judged(container, script)
            ends += killed
        end, probe = min(ends, default=(None, ""))
        if end is not None and age >= end:
            return self._ends(running, begun + end, probe, script, last, restarts)
        started = age >= up
        ready, changes = _readiness(container, script, up=up, age=age)
        dues = [at for at in (end, changes, None if started else up) if at is not None]
        same = running is (self._before.get("state") or {}).get("running")
        if not ready and same and self._before.get("ready") and "readinessProbe" in container:
            self._record("Warning", "Unhealthy", "Readiness probe failed: no answer")
        due = begun + min(dues) if dues else None
        return self._life({"running": dict(running)}, last, restarts, due, ready=ready and started, started=started)

    def _ends(
        self,
        running: Mapping[str, Any],
        at: float,
        probe: str,
        script: Script,
        last: Mapping[str, Any] | None,
        restarts: int,
    ) -> Life:
        """Terminate the container. probe: name of the failed probe that killed it; "" if it exited."""
        code = KILLED if probe else script.exit_code
        if probe:
            name = self._container["name"]
            again = restarts_after(self._container, self._context.restart_policy, code)
            self._record("Warning", "Unhealthy", f"{probe} probe failed: no answer")
            suffix = ", will be restarted" if again else ""
            self._record("Normal", "Killing", f"Container {name} failed {probe.lower()} probe{suffix}")
        over = self._over(running, code, restarts, at=at)
        if parse_time(over["finishedAt"]) - parse_time(over["startedAt"]) > CALM:
            self._forgiven = restarts
        return self._ended(over, last, restarts)

    def _ended(self, over: Mapping[str, Any], last: Mapping[str, Any] | None, restarts: int) -> Life:
        container, context = self._container, self._context
        if not restarts_after(container, context.restart_policy, over["exitCode"]):
            return self._life({"terminated": over}, last, restarts, None)
        wait = backoff(restarts - self._forgiven)
        again = parse_time(over["finishedAt"]) + wait if over.get("finishedAt") else self._now
        if self._now >= again:
            return self._begin(over, restarts + 1)
        name = container["name"]
        if self._waits_for() != CRASH_LOOP or over is not (self._before.get("lastState") or {}).get("terminated"):
            self._record("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {context.name}")
        waiting = {
            "reason": CRASH_LOOP,
            "message": f"back-off {_go_duration(wait)} restarting failed container={name} pod={context.name}",
        }
        return self._life({"waiting": waiting}, over, restarts, again)

    def _over(self, running: Mapping[str, Any], exit_code: int, restarts: int, *, at: float) -> Object:
        over = _terminated(running, exit_code, at=at)
        over["containerID"] = container_id(self._context.uid, self._container["name"], restarts)
        return over

    def _record(self, type: RecordType, reason: str, message: str) -> None:
        self._events.append(PodEvent(type, reason, message, self._container["name"]))

    def _life(
        self,
        state: Object,
        last: Mapping[str, Any] | None,
        restarts: int,
        due: float | None,
        *,
        ready: bool = False,
        started: bool = False,
        ran: bool = True,
    ) -> Life:
        identity = container_id(self._context.uid, self._container["name"], restarts) if ran else None
        status = _status(self._container, state, last, identity=identity, restarts=restarts)
        if ready or started:
            status["ready"], status["started"] = ready, started
        memory = NOTHING if self._pull is None and not self._forgiven else Memory(self._pull, self._forgiven)
        return Life(status, due, memory, self._events)


def _judged(container: Mapping[str, Any], script: Script) -> tuple[float, list[tuple[float, str]]]:
    """Return when startup has finished, and when a probe kills the container and which, in seconds from the start."""
    answers = script.answers()
    up, killed = 0.0, []
    startup, liveness = probe_of(container, "startup"), probe_of(container, "liveness")
    if startup is not None:
        up = first_verdict(startup, answers, good=True)
        fails = first_verdict(startup, answers, good=False)
        if fails < up:
            return up, [(fails, "Startup")]
    if liveness is not None:
        fails = first_verdict(liveness, answers, good=False, since=up)
        if fails < float("inf"):
            killed.append((fails, "Liveness"))
    return up, killed


def _readiness(container: Mapping[str, Any], script: Script, *, up: float, age: float) -> tuple[bool, float | None]:
    """Return whether the container is ready, and the age in seconds at which that changes (None for never)."""
    if script.flap and script.ready:
        turn = age // script.flap
        return turn % 2 == 0, (turn + 1) * script.flap
    probe = probe_of(container, "readiness")
    return readiness(probe, script.serves(probed=probe is not None), since=up, age=age)


def _go_duration(seconds: float) -> str:
    """Format whole seconds as Go does: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


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
    container: Mapping[str, Any],
    state: Object,
    last: Mapping[str, Any] | None,
    *,
    identity: str | None,
    restarts: int,
) -> Object:
    """Build a containerStatus. identity: container ID of the last run; None before the first run."""
    image = container.get("image") or ""
    status = {
        "name": container["name"],
        "image": image,
        "imageID": image_id(image) if identity is not None else "",
        "ready": False,
        "started": False,
        "restartCount": restarts,
        "state": state,
    }
    if identity is not None:
        status["containerID"] = identity
    if last is not None:
        status["lastState"] = {"terminated": dict(last)}
    return status
