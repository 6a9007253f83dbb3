"""`bin/run-bench scale`: 5,000 nodes and 150,000 pods on the embedded API server, with all default controllers.

The store is made from a prototype (population.py), nodes are only objects whose Leases one process renews
(heartbeats.py), and another one schedules and runs new pods (tests/bench/kubelets.py). --factor makes everything
smaller. Each manager starts on the same store, and is measured until its first act and over a minute of rest. Then kcm
alone handles changes of single pods, a rollout of a tenth of the pods, and the outage of a zone; with --faults once
more while watches are cut and requests get 429.

Where "lost" is not 0, the lines before the table name what was lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
from tests.bench.scale.population import Population, make_prototype, populate, server
from tests.bench.scale.scenes import (
    CROWD,
    EVICTION_RATE,
    IDLE,
    PROBE,
    PROBE_PODS,
    TENTH,
    Stage,
    changes,
    first_act,
    idle,
    lost,
    outage,
    rollout,
)
from tests.bench.workloads import must

FLAGS = (*RAISED_LIMITS, f"--node-eviction-rate={EVICTION_RATE}")
ANY_CLUSTER = "--fault-plan-on-any-cluster"
PERIOD, LASTING, PLANNED = 30, 5, 3600  # seconds of the fault plan: between storms, of a storm, of the whole plan


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of a run. factor: 1 for 5,000 nodes and 150,000 pods."""

    factor: float
    faults: bool = False
    real: bool = True

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
    population = sizes.population
    title = f"{population.nodes} nodes, {round(150_000 * sizes.factor)} pods"
    with scratch() as directory, ExitStack() as closing:
        make_prototype(directory / "prototype")
        populate(directory / "prototype", directory / "server", population)
        cluster = closing.enter_context(server(directory / "server"))
        beats = closing.enter_context(heartbeats(cluster, population, directory / "heartbeats.log"))
        closing.enter_context(simulated_kubelets(cluster, "", nodes=population.near_nodes))
        api = ApiConnection(cluster)
        closing.callback(api.close)
        _add_selections(api, population)
        run = Run(cluster, api, beats, population, directory)
        with run.manager("kcm"):  # creates the EndpointSlices and statuses of what was added
            pass
        for _ in range(rounds):
            for who in ("kcm", *(["kube-controller-manager"] if sizes.real and has_assets() else [])):
                with run.manager(who) as (stage, seconds):
                    figures = {"first_act_seconds": seconds, "start_cpu_seconds": stage.manager.cpu(), **idle(stage)}
                    report.add(title, who, **figures)
            measure_noise()
        run.scenes(report, sizes)
        measure_noise()
        if sizes.faults:
            (directory / "faults.yml").write_text(fault_plan())
            run.scenes(report, sizes, f"--fault-plan={directory / 'faults.yml'}", ANY_CLUSTER, who="kcm, with faults")
            measure_noise()


@dataclass(frozen=True, slots=True)
class Run:
    """Large cluster in which managers are started one after the other."""

    cluster: Cluster
    api: ApiConnection
    heartbeats: Process
    population: Population
    directory: Path
    starts: Iterator[int] = field(default_factory=count)  # numbers of the next starts

    @contextmanager
    def manager(self, who: str, *flags: str) -> Iterator[tuple[Stage, float]]:
        """Yield a manager that has settled, and the seconds from its launch until its first act."""
        start = with_defaults(our_manager if who.startswith("kcm") else real_manager)
        launch = partial(start, self.cluster, self.directory, *FLAGS, *flags)
        process, seconds = first_act(self.api, launch, next(self.starts))
        try:
            stage = Stage(self.cluster, self.api, process, self.heartbeats, self.population)
            stage.wait_until_settled()
            yield stage, seconds
        finally:
            process.kill()

    def scenes(self, report: Report, sizes: Scale, *flags: str, who: str = "kcm") -> None:
        with self.manager(who, *flags) as (stage, _):
            resting = stage.cores(IDLE)
            for namespace, pods in ((TENTH, sizes.tenth), (CROWD, sizes.crowd)):
                figures = changes(stage, namespace, resting=resting)
                report.add(f"a pod's change, {pods} pods behind", who, **figures)
            report.add(f"{sizes.crowd} pods of one namespace rolled", who, **rollout(stage, sizes.crowd))
            report.add("outage of a zone", who, **outage(stage))
            found = list(lost(stage))
            for line in found[:20]:
                print(line, file=sys.stderr)
            log = (self.directory / "ours.log").read_text()
            restarted, injected = log.count('"actor is restarted"'), log.count("injected")
            report.add("nothing lost", who, lost=len(found), restarted_actors=restarted, injected_lines=injected)


@contextmanager
def heartbeats(cluster: Cluster, population: Population, log: Path) -> Iterator[Process]:
    far = population.nodes - population.near_nodes
    argv = [sys.executable, "-m", "tests.bench.scale.heartbeats", str(cluster.kubeconfig)]
    process = Process([*argv, str(population.nodes), str(far)], log=log)
    try:
        yield process
    finally:
        if not process.is_running():
            print(f"the heartbeats ended:\n{log.read_text()[-2000:]}", file=sys.stderr)
        process.kill()


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
