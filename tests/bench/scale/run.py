"""`bin/run-bench scale`: 5,000 nodes and 150,000 pods on the embedded API server, or on kube-apiserver with --on, with
all default controllers.

The store is made from a prototype (population.py), nodes are only objects whose Leases one process renews
(heartbeats.py), and another one schedules and runs new pods (tests/bench/kubelets.py). --factor makes everything
smaller. In each round each manager starts on the same store, and is measured until its first act and over a minute of
rest. Then kcm handles changes of single pods, a rollout of a fifteenth of the pods, and the outage of a zone; on
kube-apiserver kube-controller-manager does the same. With --faults kcm does it once more while watches are cut and
requests get 429.

A scene that fails is reported, and the next one follows. Where "lost" is not 0, the lines before the table name what
was lost.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.bench.defaults import with_defaults
from tests.bench.processes import (
    RAISED_LIMITS,
    ApiConnection,
    Cluster,
    Process,
    has_assets,
    our_manager,
    real_manager,
    scratch,
    simulated_kubelets,
)
from tests.bench.report import Report
from tests.bench.scale.embedded_store import make_prototype, populate, server
from tests.bench.scale.etcd_store import populated_real_cluster
from tests.bench.scale.heartbeats import INTERVAL
from tests.bench.scale.population import Population
from tests.bench.scale.scenes import (
    CROWD,
    EVICTION_RATE,
    IDLE,
    PROBE,
    PROBE_PODS,
    TENTH,
    Figures,
    Stage,
    changes,
    first_act,
    idle,
    lost,
    make_nodes_ready,
    outage,
    rollout,
)
from tests.bench.workloads import must

FLAGS = (*RAISED_LIMITS, f"--node-eviction-rate={EVICTION_RATE}")
ANY_CLUSTER = "--fault-plan-on-any-cluster"
GRACE = 5  # intervals of heartbeats until a silent node is unknown, as in kube-controller-manager by default
EMBEDDED, REAL = "embedded", "kube-apiserver"
LOG_TAIL = 3000  # bytes of a manager's log that are printed after a failure
END_WITHIN = 5.0  # seconds for the heartbeats to print their figures
PERIOD, LASTING, PLANNED = 30, 5, 3600  # seconds of the fault plan: between storms, of a storm, of the whole plan


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of a run. factor: 1 for 5,000 nodes and 150,000 pods."""

    factor: float
    faults: bool = False
    real: bool = True  # measure kube-controller-manager as well
    scenes: bool = True  # False: only the starts and the rest after them
    on: Sequence[str] = (EMBEDDED,)  # names of API servers
    interval: float = INTERVAL  # seconds between two heartbeats of a node

    @property
    def title(self) -> str:
        title = f"{self.population.nodes} nodes, {round(150_000 * self.factor)} pods"
        return title if self.interval == INTERVAL else f"{title}, heartbeats each {self.interval:g} s"

    def flags(self, server: str) -> list[str]:
        """Return the flags of the managers. server: name of the API server"""
        if server == EMBEDDED and self.interval == INTERVAL:
            return [*FLAGS]
        # Both managers have an outage on kube-apiserver, and their defaults differ.
        return [*FLAGS, f"--node-monitor-grace-period={GRACE * self.interval:.0f}s"]

    @property
    def crowd(self) -> int:
        return round(10_000 * self.factor)

    @property
    def tenth(self) -> int:
        return round(1_000 * self.factor)

    @property
    def population(self) -> Population:
        crowds = {CROWD: self.crowd, TENTH: self.tenth, PROBE: PROBE_PODS}
        return Population(
            nodes=round(5_000 * self.factor),
            pods=round(150_000 * self.factor) - self.crowd - self.tenth,
            namespaces=round(300 * self.factor),
            crowds=crowds,
        )


def fault_plan() -> str:
    """Return a fault plan that alternately cuts watches and returns 429, as YAML (of which JSON is a subset)."""
    faults: list[dict[str, Any]] = []
    for start in range(PERIOD, PLANNED, PERIOD):
        faults.append({"kind": "watch-dropped", "rate": 0.05, "most": 50, "start": start, "until": start + LASTING})
        storm = start + PERIOD // 2
        storm_of_429 = {"kind": "command-answered", "status": 429, "seconds": 1, "rate": 0.5}
        faults.append({**storm_of_429, "start": storm, "until": storm + LASTING})
    return json.dumps({"seed": 7, "faults": faults})


def scale(report: Report, rounds: int, measure_noise: Callable[[], None], *, sizes: Scale) -> None:
    for name in sizes.on:
        _scale_on(name, report, rounds, measure_noise, sizes=sizes)


def _scale_on(name: str, report: Report, rounds: int, measure_noise: Callable[[], None], *, sizes: Scale) -> None:
    population, title = sizes.population, sizes.title
    managers = ["kcm", *(["kube-controller-manager"] if sizes.real and has_assets() else [])]
    with scratch() as directory, ExitStack() as closing:
        progress(f"{title}: {name} is filled")
        cluster = closing.enter_context(POPULATED[name](directory, population))
        beats = closing.enter_context(heartbeats(cluster, population, directory / "heartbeats.log", sizes.interval))
        closing.enter_context(simulated_kubelets(cluster, "", nodes=population.near_nodes))
        api = ApiConnection(cluster)
        closing.callback(api.close)
        _add_selections(api, population)
        run = Run(cluster, api, beats, population, directory, sizes.flags(name))
        progress("kcm starts for the first time")
        with run.manager("kcm"):  # creates the EndpointSlices and statuses of what was added
            pass
        for number in range(rounds):
            for who in managers:
                with run.attempt(report, f"{run.label(who)} starts, round {number + 1} of {rounds}"):
                    run.start(report, title, who)
                measure_noise()
        if not sizes.scenes:
            return
        for who in managers if name == REAL else ["kcm"]:
            run.scenes(report, sizes, measure_noise, who=who)
        if sizes.faults:
            (directory / "faults.yml").write_text(fault_plan())
            plan = f"--fault-plan={directory / 'faults.yml'}"
            run.scenes(report, sizes, measure_noise, plan, ANY_CLUSTER, who="kcm, with faults")


@contextmanager
def populated_embedded_cluster(directory: Path, population: Population) -> Iterator[Cluster]:
    make_prototype(directory / "prototype")
    populate(directory / "prototype", directory / "server", population)
    with server(directory / "server") as cluster:
        yield cluster


POPULATED: dict[str, Callable[[Path, Population], AbstractContextManager[Cluster]]] = {
    EMBEDDED: populated_embedded_cluster,
    REAL: populated_real_cluster,
}


@dataclass(frozen=True, slots=True)
class Run:
    """Large cluster in which managers are started one after the other."""

    cluster: Cluster
    api: ApiConnection
    heartbeats: Process
    population: Population
    directory: Path
    flags: Sequence[str] = FLAGS  # of each manager
    starts: Iterator[int] = field(default_factory=count)  # numbers of the next starts

    @contextmanager
    def manager(self, who: str, *flags: str) -> Iterator[tuple[Stage, float]]:
        """Yield a manager that has settled, and the seconds from its launch until its first act."""
        if late := make_nodes_ready(self.cluster, self.api):
            progress(f"{late} nodes were reported as ready again")
        start = with_defaults(our_manager if is_ours(who) else real_manager)
        launch = partial(start, self.cluster, self.directory, *self.flags, *flags)
        process, seconds = first_act(self.api, launch, next(self.starts))
        try:
            stage = Stage(self.cluster, self.api, process, self.heartbeats, self.population)
            stage.wait_until_settled()
            yield stage, seconds
        finally:
            process.kill()

    def label(self, who: str) -> str:
        """Return the name of a manager in the table."""
        manager, *more = who.split(",", 1)
        return who if self.cluster.name == EMBEDDED else ",".join([f"{manager} on {self.cluster.name}", *more])

    def start(self, report: Report, title: str, who: str) -> None:
        """Measure the start of a manager, and the rest after it."""
        with self.manager(who) as (stage, seconds):
            figures = {"first_act_seconds": seconds, "start_cpu_seconds": stage.manager.cpu(), **idle(stage)}
            report.add(title, self.label(who), **figures)

    def scenes(
        self, report: Report, sizes: Scale, measure_noise: Callable[[], None], *flags: str, who: str = "kcm"
    ) -> None:
        """Measure a manager at work. A scene that fails is recorded in the report.

        measure_noise: called after each scene
        flags: of the manager
        """
        with self.attempt(report, f"{self.label(who)} starts for its scenes"), self.manager(who, *flags) as (stage, _):
            resting = stage.cores(IDLE)
            scenes: list[tuple[str, Callable[[], Figures]]] = [
                (f"a pod's change, {pods} pods behind", partial(changes, stage, namespace, resting=resting))
                for namespace, pods in ((TENTH, sizes.tenth), (CROWD, sizes.crowd))
            ]
            scenes += [
                (f"{sizes.crowd} pods of one namespace rolled", partial(rollout, stage, sizes.crowd)),
                ("outage of a zone", partial(outage, stage)),
                ("nothing lost", partial(self.losses, stage, who)),
            ]
            for title, measure in scenes:
                with self.attempt(report, f"{self.label(who)}: {title}"):
                    if not stage.manager.is_running():
                        raise RuntimeError("the manager has ended")
                    report.add(title, self.label(who), **measure())
                measure_noise()

    def losses(self, stage: Stage, who: str) -> Figures:
        """Count what the manager has lost, and print it. For kcm also count its restarts and the injected faults."""
        found = list(lost(stage))
        for line in found[:20]:
            print(line, file=sys.stderr)
        if not is_ours(who):
            return {"lost": len(found)}
        log = self.log(who).read_text()
        restarted, injected = log.count('"actor is restarted"'), log.count("injected")
        return {"lost": len(found), "restarted_actors": restarted, "injected_lines": injected}

    def attempt(self, report: Report, description: str) -> AbstractContextManager[None]:
        return attempt(report, description, logs=[self.log(who) for who in ("kcm", "kube-controller-manager")])

    def log(self, who: str) -> Path:
        return self.directory / ("ours.log" if is_ours(who) else "real.log")


@contextmanager
def attempt(report: Report, description: str, *, logs: Sequence[Path]) -> Iterator[None]:
    """Record a failure of the body in the report, and print it with the ends of the logs."""
    progress(description)
    try:
        yield
    except Exception:
        report.failures.append(description)
        traceback.print_exc()
        for log in filter(Path.exists, logs):
            print(f"{log.name}: … {log.read_bytes()[-LOG_TAIL:].decode(errors='replace')}", file=sys.stderr)


def is_ours(who: str) -> bool:
    return who.startswith("kcm")


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@contextmanager
def heartbeats(cluster: Cluster, population: Population, log: Path, interval: float = INTERVAL) -> Iterator[Process]:
    """Run the heartbeats, and finally print how many there were and how late they were.

    interval: seconds between two heartbeats of a node
    """
    far = population.nodes - population.near_nodes
    argv = [sys.executable, "-m", "tests.bench.scale.heartbeats", str(cluster.kubeconfig)]
    process = Process([*argv, str(population.nodes), str(far), f"--interval={interval}"], log=log)
    try:
        yield process
    finally:
        if not process.is_running():
            print("the heartbeats ended too early", file=sys.stderr)
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_WITHIN
        while process.is_running() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
        print(f"heartbeats: {log.read_text()[-2000:].strip()}", file=sys.stderr)


def _add_selections(api: ApiConnection, population: Population) -> None:
    """Add a quota, a Service and a PodDisruptionBudget over each crowd, and a Service in each other namespace."""
    for number in range(population.namespaces):
        must(api, "POST", f"/api/v1/namespaces/ns-{number:05}/services", _service(f"app-{number:05}"))
    for name, pods in population.crowds.items():
        budget = {"minAvailable": "50%", "selector": {"matchLabels": {"app": name}}}
        must(api, "POST", f"/api/v1/namespaces/{name}/services", _service(name))
        must(api, "POST", f"/apis/policy/v1/namespaces/{name}/poddisruptionbudgets", _object(name, spec=budget))
        if name != PROBE:
            quota = {"hard": {"pods": str(3 * pods)}}
            must(api, "POST", f"/api/v1/namespaces/{name}/resourcequotas", _object(name, spec=quota))


def _service(app: str) -> dict[str, Any]:
    return _object(app, spec={"selector": {"app": app}, "ports": [{"port": 80}]})


def _object(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}
