"""Soak test: resources of the manager and of the embedded cluster under steady churn, and whether they grow.

    python -m tests.bench.soak --minutes 30
    python -m tests.bench.soak --minutes 30 --faults

The manager runs all controllers on the embedded cluster. Namespaces with workloads of every kind are created, rolled
out, scaled and deleted again, so that the number of objects stays about the same while their names and uids never
repeat. Every few seconds the memory, threads and file descriptors of each process and the lengths of all work queues
are sampled. After a warm-up of 45 minutes, in which caches of constant size fill, a line is fitted to each figure. A
figure is flat unless the line, and the median and the tenth percentile of the last third compared with the first, rise
by more than its tolerance. The exit code is 0 if all figures are flat.

With --faults, faults are injected all the time: crashed and blocked actors, lost and failed requests, broken watches,
silent nodes, partitions, and loss of the Lease.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import resident_of
from tests.e2e.kubectl import Api
from tests.e2e.programs import Manager, Program, ending, run_kcm, until

Object = dict[str, Any]

NODES, ZONES = 6, 2
LIVE = 4  # namespaces that exist at a time
PERIOD = 6.0  # seconds between two new namespaces
SAMPLING = 5.0  # seconds between two samples
# Seconds before the lines are fitted, in which the caches of constant size fill: the watch history of the API server
# has the changes of five minutes (HISTORY_AGE), event recorders compare the events of ten minutes (SIMILAR_SECONDS) and
# keep the newest 4,096 (CACHE), which the hollow nodes write within 16 minutes under this churn, and the manager within
# an hour.
WARM_UP = 45 * 60.0
LONGEST_WARM_UP = 0.6  # part of a shorter run
MANAGER, SERVER, HOLLOW = "manager", "API server", "hollow nodes"
MODULES = {"kcm.runtime.apiserver.process": SERVER, "kcm.actors.hollow.process": HOLLOW}
FLAGS = (
    "--controllers=*,bootstrapsigner,tokencleaner",
    "--leader-elect=true",
    "--leader-elect-on-loss=standby",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/16",
    "--cloud-provider=fake",
    "--horizontal-pod-autoscaler-sync-period=5s",
    "--terminated-pod-gc-threshold=50",
    f"--hollow-nodes={NODES}",
    f"--hollow-zones={ZONES}",
    "--v=0",
)
# By figure: the growth after the warm-up that still counts as flat, as a part of the mean and as a number.
TOLERANCES = {"MB": (0.03, 2.0), "threads": (0.0, 1.0), "descriptors": (0.05, 2.0), "queued keys": (0.5, 5.0)}


# The faults.


def fault_plan(minutes: float) -> str:
    """Return a plan whose faults are spread over the whole run, as YAML.

    JSON is YAML. Faults of requests, watches and actors have a small chance all the time; the others follow each other.
    """
    faults: list[Object] = [
        {"kind": "actor-crashed", "rate": 0.0001},
        {"kind": "reconciler-blocked", "rate": 0.0005, "seconds": 1},
        {"kind": "message-delayed", "rate": 0.001, "seconds": 1},
        {"kind": "command-answered", "rate": 0.02, "status": 500},
        {"kind": "command-answered", "rate": 0.01, "status": 429, "seconds": 1},
        {"kind": "command-answered", "rate": 0.01, "status": 409},
        {"kind": "command-refused", "rate": 0.005},
        {"kind": "command-delayed", "rate": 0.01, "seconds": 1},
        {"kind": "command-repeated", "rate": 0.01},
        {"kind": "command-lost", "rate": 0.001},
        {"kind": "outcome-lost", "rate": 0.002},
        {"kind": "watch-dropped", "rate": 0.005},
        {"kind": "watch-lagging", "rate": 0.01, "seconds": 2},
        {"kind": "call-answered", "rate": 0.05, "status": 500},
    ]
    # (start, end) in seconds, from the first minute on
    for number, start in enumerate(range(60, int(minutes * 60) - 20, 40)):
        window = {"start": start, "until": start + 15}
        faults.append(
            (
                {"kind": "partition", "start": start, "until": start + 4},
                {"kind": "node-silent", "object": f"hollow-node-{number % NODES}", "start": start, "until": start + 60},
                {"kind": "lease-stolen", "start": start, "until": start + 5, "seconds": 5},
                {"kind": "watch-stalled", "rate": 0.02, **window},
                {"kind": "actor-hung", "rate": 0.0005, "seconds": 3, **window},
            )[number % 5]
        )
    return json.dumps({"seed": 7, "faults": faults}, indent=1)


# The churn.


def _pod(name: str, command: Sequence[str] = (), **more: Any) -> Object:
    container: Object = {
        "name": "main",
        "image": "busybox" if command else "web:1",
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }
    if command:
        container["command"] = list(command)
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **more}}


def _scaled(kind: str, name: str, replicas: int | None, **more: Any) -> Object:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": _pod(name), **more}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def contents() -> list[tuple[str, Object]]:
    """Return the objects of a namespace, each with the path of its collection below the group or version."""
    job_pod = _pod("job", ["sleep", "1"], restartPolicy="Never")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return [
        ("v1 resourcequotas", {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "60"}}}),
        ("v1 configmaps", {"metadata": {"name": "settings"}, "data": {"text": "x" * 2000}}),
        ("v1 secrets", {"metadata": {"name": "secret"}, "stringData": {"text": "x" * 500}}),
        ("v1 serviceaccounts", {"metadata": {"name": "robot"}}),
        ("v1 services", {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        (
            "v1 services",
            {
                "metadata": {"name": "front"},
                "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]},
            },
        ),
        ("apps/v1 deployments", _scaled("Deployment", "web", 3)),
        ("apps/v1 statefulsets", _scaled("StatefulSet", "db", 2, serviceName="db", volumeClaimTemplates=[claim])),
        ("apps/v1 daemonsets", _scaled("DaemonSet", "agent", None)),
        (
            "v1 replicationcontrollers",
            {"metadata": {"name": "old"}, "spec": {"replicas": 1, "selector": {"app": "old"}, "template": _pod("old")}},
        ),
        (
            "batch/v1 jobs",
            {
                "metadata": {"name": "job"},
                "spec": {"completions": 3, "parallelism": 3, "template": job_pod, "ttlSecondsAfterFinished": 5},
            },
        ),
        (
            "batch/v1 cronjobs",
            {
                "metadata": {"name": "clock"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job_pod}}},
            },
        ),
        (
            "policy/v1 poddisruptionbudgets",
            {
                "metadata": {"name": "web"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            },
        ),
        (
            "autoscaling/v2 horizontalpodautoscalers",
            {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5}},
        ),
    ]


class Churn:
    """Thread that creates namespaces with workloads, changes these and deletes the namespaces, until `end`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._numbers = itertools.count(1)
        self._live: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn")
        self.created = 0  # namespaces
        self.failures = 0  # requests of the churn that failed
        self._thread.start()

    def end(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD):
            # A namespace is created, the workloads of the one before it are changed, the oldest is deleted.
            name = f"soak-{next(self._numbers)}"
            self._create(name)
            if self._live:
                self._change(self._live[-1])
            self._live.append(name)
            if len(self._live) > LIVE:
                self._send("DELETE", f"/api/v1/namespaces/{self._live.pop(0)}")

    def _send(self, method: str, path: str, body: Object | None = None, **more: Any) -> None:
        try:
            self._api.request(method, path, body, **more)
        except (OSError, ValueError):
            self.failures += 1

    def _create(self, namespace: str) -> None:
        self.created += 1
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        for _ in range(50):  # pods are rejected until the namespace has its default service account
            with suppress(OSError):
                if self._api.get(accounts)["items"] or self._stopped.is_set():
                    break
            time.sleep(0.2)
        for collection, obj in contents():
            version, plural = collection.split()
            self._send("POST", f"{_root(version)}/namespaces/{namespace}/{plural}", obj)

    def _change(self, namespace: str) -> None:
        template = _pod("web")
        template["spec"]["containers"][0]["image"] = "web:2"
        merge = {"type": "application/merge-patch+json"}
        apps = f"/apis/apps/v1/namespaces/{namespace}"
        self._send("PATCH", f"{apps}/deployments/web", {"spec": {"template": template}}, **merge)
        self._send("PATCH", f"{apps}/statefulsets/db", {"spec": {"replicas": 3}}, **merge)
        self._send("PATCH", f"{apps}/daemonsets/agent", {"metadata": {"labels": {"changed": "true"}}}, **merge)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


# The samples.


@dataclass
class Samples:
    """Values by name of the figure, with the seconds since the start at which they were read."""

    seconds: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, at: float, figures: dict[str, float]) -> None:
        self.seconds.append(at)
        for name, value in figures.items():
            self.values.setdefault(name, []).append(value)

    def after(self, start: float) -> Samples:
        """Return the samples from this number of seconds on."""
        first = next((number for number, at in enumerate(self.seconds) if at >= start), len(self.seconds))
        return Samples(self.seconds[first:], {name: values[first:] for name, values in self.values.items()})


@dataclass(frozen=True)
class Trend:
    """Course of one figure after the warm-up. per_hour: slope of the line that was fitted by least squares."""

    name: str
    mean: float
    first: float  # median of the first third
    last: float  # median of the last third
    per_hour: float
    rise: float  # of the line, between the first and the last sample
    flat: bool

    def __str__(self) -> str:
        verdict = "flat" if self.flat else "RISES"
        return (
            f"{self.name:26} mean {self.mean:9.1f}  first third {self.first:9.1f}  last third {self.last:9.1f}  "
            f"slope {self.per_hour:+9.1f}/h  {verdict}"
        )


def trend(name: str, seconds: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a line to a figure. Needs three samples.

    name: ends with the unit, which is a key of TOLERANCES.
    """
    line = statistics.linear_regression(seconds, values)
    rise = line.slope * (seconds[-1] - seconds[0])
    third = max(1, len(values) // 3)
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    mean = statistics.fmean(values)
    part, number = next(limits for unit, limits in TOLERANCES.items() if name.endswith(unit))
    # All must rise: a peak tilts the line, and a wave moves the medians. A leak also raises the lowest values.
    floor = _tenth_percentile(values[-third:]) - _tenth_percentile(values[:third])
    flat = min(rise, last - first, floor) <= max(part * mean, number)
    return Trend(name, mean, first, last, line.slope * 3600, rise, flat)


def _tenth_percentile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 10]


def trends(samples: Samples) -> list[Trend]:
    return [trend(name, samples.seconds, values) for name, values in samples.values.items()]


def processes_of(program: Program) -> dict[str, int]:
    """Return the process ids of the manager and of its children, by the name in the report."""
    found = {MANAGER: program.process.pid}
    for pid in program.descendants():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            found |= {name: pid for module, name in MODULES.items() if module in words}
    return found


def figures_of(name: str, pid: int) -> dict[str, float]:
    status = Path(f"/proc/{pid}/status").read_text()
    threads = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads:"))
    return {
        f"{name}, MB": resident_of(pid),
        f"{name}, threads": threads,
        f"{name}, descriptors": len(os.listdir(f"/proc/{pid}/fd")),
    }


def heap(manager: Manager) -> dict[str, int]:
    """Return the number of objects in the manager's heap by type."""
    found: dict[str, int] = {}
    status, text = manager.get("/debug/pprof/heap?debug=1")
    assert status == 200, text
    for line in text.splitlines():
        name, _, number = line.rpartition(" ")
        found[name] = int(number)
    return found


# The run.


def warm_up(minutes: float) -> float:
    """Return the seconds before the lines are fitted, for a run of this duration."""
    return min(WARM_UP, minutes * 60 * LONGEST_WARM_UP)


@dataclass
class Soak:
    """Result of a run. counts: sums at the end, for orientation."""

    trends: list[Trend]
    counts: dict[str, float]
    grown: list[tuple[str, int, int]]  # types with the most new objects after the warm-up: name, before, after

    def lines(self) -> Iterable[str]:
        yield ", ".join(f"{name} {value:,.0f}" for name, value in self.counts.items())
        yield from map(str, self.trends)
        yield "types of the manager's heap that have grown most after the warm-up:"
        for name, before, after in self.grown:
            yield f"  {name}: {before:,} -> {after:,}"


def soak(
    directory: Path, *, minutes: float, plan: str | None, say: Callable[[str], None], sampling: float = SAMPLING
) -> Soak:
    """Run the manager under churn, and return how its figures developed after the warm-up.

    plan: fault plan as YAML; None for no faults.
    """
    flags = [f"--embedded-dir={directory / 'kcm'}", *FLAGS]
    if plan is not None:
        (directory / "faults.yml").write_text(plan)
        flags.append(f"--fault-plan={directory / 'faults.yml'}")
    manager = run_kcm(directory / "manager.log", *flags)
    with ExitStack() as closing:
        closing.enter_context(ending(manager.program))
        kubeconfig = directory / "kcm" / "kubeconfig"
        until(lambda: kubeconfig.exists() and manager.get("/healthz")[0], "it serves", why=manager.program.text)
        churn = Churn(Api(kubeconfig))
        closing.callback(churn.end)
        samples, start = Samples(), time.monotonic()
        warm, end = start + warm_up(minutes), start + minutes * 60
        before: dict[str, int] = {}
        while time.monotonic() < end:
            time.sleep(sampling)
            assert manager.program.running, f"the manager ended:\n{manager.program.text()[-5000:]}"
            if not before and time.monotonic() >= warm:
                before = heap(manager)
            figures = {"manager, queued keys": manager.metric("workqueue_depth")}
            try:
                for name, pid in processes_of(manager.program).items():
                    figures |= figures_of(name, pid)
            except OSError:
                continue  # a child has ended, and another one takes its place
            if len(figures) == 1 + 3 * (1 + len(MODULES)):
                samples.add(time.monotonic() - start, figures)
                (directory / "samples.json").write_text(json.dumps([samples.seconds, samples.values]))
                if len(samples.seconds) % 12 == 1:
                    shown = ", ".join(f"{name} {value:.0f}" for name, value in figures.items())
                    say(f"{samples.seconds[-1]:6.0f} s: {shown}")
        after = heap(manager)
        counts = {
            "namespaces": churn.created,
            "failed requests of the churn": churn.failures,
            "keys added": manager.metric("workqueue_adds_total"),
            "requests": manager.metric("rest_client_requests_total"),
            "log lines about injected faults": manager.program.text().count("injected"),
            "restarted actors": manager.program.text().count('"actor is restarted"'),
        }
    grown = sorted(
        ((name, before.get(name, 0), number) for name, number in after.items()),
        key=lambda entry: entry[1] - entry[2],
    )[:12]
    result = Soak(trends(samples.after(warm_up(minutes))), counts, grown)
    say(f"figures after the first {warm_up(minutes) / 60:.1f} of {minutes:g} minutes:")
    for line in result.lines():
        say(line)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="duration (default: 30)")
    parser.add_argument("--faults", action="store_true", help="inject faults all the time")
    parser.add_argument("--fault-plan", type=Path, help="inject the faults of this plan instead")
    parser.add_argument("--directory", type=Path, help="keep the logs and the cluster's data in this directory")
    chosen = parser.parse_args()
    plan = chosen.fault_plan.read_text() if chosen.fault_plan else fault_plan(chosen.minutes) if chosen.faults else None
    with ExitStack() as closing:
        directory = chosen.directory or Path(closing.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        result = soak(directory, minutes=chosen.minutes, plan=plan, say=lambda line: print(line, flush=True))
    return 0 if all(found.flat for found in result.trends) else 1


if __name__ == "__main__":
    sys.exit(main())
