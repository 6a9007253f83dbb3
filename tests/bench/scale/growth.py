"""`bin/run-bench growth`: CPU time and memory of the manager by the numbers of pods, nodes, namespaces and
CustomResourceDefinitions, and those of the embedded API server by the number of watchers.

A small cluster is measured first; only one number grows at a time. CPU is the processor time of the process (user and
system), never seconds of a clock, because the machine has other work.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.deletions import CRD, CRDS
from tests.bench.http_client import Access, Watchers
from tests.bench.processes import ApiConnection, scratch, simulated_kubelets
from tests.bench.report import Report
from tests.bench.scale.embedded_store import make_prototype, populate, server
from tests.bench.scale.population import Population
from tests.bench.scale.run import Run, heartbeats
from tests.bench.scale.scenes import PROBE, PROBE_PODS, Stage, change_pods, probe
from tests.bench.workloads import must

DIMENSIONS: Mapping[str, Sequence[int]] = {
    "pods": (10_000, 20_000, 40_000, 80_000),
    "nodes": (500, 1_000, 2_000, 4_000),
    "namespaces": (500, 1_000, 2_000, 4_000),
    "definitions": (25, 50, 100, 200),
    "watchers": (50, 100, 200, 400),
}
BASE = Population(nodes=10, pods=500, namespaces=10, crowds={PROBE: PROBE_PODS})
SMALL = "small cluster"  # benchmark of the values of BASE
REST = 30.0  # seconds over which CPU is measured
TRIMMED = 75.0  # seconds after its start by which a manager has returned the memory that only the start needed
ROLLS = 5  # rollouts of a Deployment of PROBE_PODS pods
WATCHED_CHANGES = 100
EXPLAINED = 0.9  # part of the variance that a fitted line must explain
# Figures that are fitted, with their units.
FIGURES = {"start_cpu_seconds": "CPU s", "resident_mb": "MB", "idle_cpu_percent": "% CPU"}
OF_WATCHERS = {"server_mb": "MB", "server_cpu_ms_per_change": "ms"}


def growth(report: Report, rounds: int, measure_noise: Callable[[], None], *, dimensions: Sequence[str]) -> None:
    with scratch() as directory:
        make_prototype(directory / "prototype")
        for _ in range(rounds):
            if {*dimensions} - {"watchers"}:
                report.add(SMALL, "kcm", **_manager_figures(directory, BASE, definitions=0))
            for dimension in dimensions:
                for size in DIMENSIONS[dimension]:
                    measure = _watcher_figures if dimension == "watchers" else _figures_by(dimension)
                    report.add(f"growth by {dimension}", str(size), **measure(directory, size))
                measure_noise()


def _figures_by(dimension: str) -> Callable[[Path, int], dict[str, float]]:
    def measure(directory: Path, size: int) -> dict[str, float]:
        if dimension == "definitions":
            return _manager_figures(directory, BASE, definitions=size)
        return _manager_figures(directory, replace(BASE, **{dimension: size}), definitions=0)

    return measure


def _manager_figures(directory: Path, population: Population, *, definitions: int) -> dict[str, float]:
    with _stage(directory, population, definitions=definitions) as stage:
        time.sleep(max(0.0, stage.manager.began + TRIMMED - time.monotonic()))
        started = stage.manager.cpu()
        percent = stage.cores(REST) * 100
        resident = stage.manager.resident()
        cpu = stage.manager.cpu()
        for _ in range(ROLLS):
            probe(stage)
        return {
            "start_cpu_seconds": started,
            "resident_mb": resident,
            "idle_cpu_percent": percent,
            "cpu_ms_per_rollout": (stage.manager.cpu() - cpu) * 1000 / ROLLS,
            "server_mb": stage.cluster.resident(),
        }


@contextmanager
def _stage(directory: Path, population: Population, *, definitions: int) -> Iterator[Stage]:
    with ExitStack() as closing:
        data = closing.enter_context(scratch()) / "server"
        populate(directory / "prototype", data, population)
        cluster = closing.enter_context(server(data))
        beats = closing.enter_context(heartbeats(cluster, population, directory / "heartbeats.log"))
        closing.enter_context(simulated_kubelets(cluster, "", nodes=population.near_nodes))
        api = ApiConnection(cluster)
        closing.callback(api.close)
        for number in range(definitions):
            must(api, "POST", CRDS, _definition(number))
        run = Run(cluster, api, beats, population, directory)
        yield closing.enter_context(run.manager("kcm"))[0]


def _definition(number: int) -> dict[str, Any]:
    definition: dict[str, Any] = deepcopy(dict(CRD))
    names, group = definition["spec"]["names"], definition["spec"]["group"]
    names |= {"plural": f"things{number}", "singular": f"thing{number}", "kind": f"Thing{number}"}
    names["listKind"] = f"Thing{number}List"
    definition["metadata"]["name"] = f"things{number}.{group}"
    return definition


def _watcher_figures(directory: Path, size: int) -> dict[str, float]:
    """Return figures of the server while `size` watches receive each change of a pod."""
    with ExitStack() as closing:
        data = closing.enter_context(scratch()) / "server"
        populate(directory / "prototype", data, BASE)
        cluster = closing.enter_context(server(data))
        api = ApiConnection(cluster)
        closing.callback(api.close)
        pods = BASE.pods + PROBE_PODS
        watched = Watchers(Access.read(cluster.kubeconfig), "/api/v1/pods?watch=true", count=size)
        with watched as watchers:
            watchers.wait_for(pods, within=300.0)
            time.sleep(1.0)
            cpu = cluster.cpu()
            changed = change_pods(api, "ns-00000", pause=0.02, count=WATCHED_CHANGES)
            watchers.wait_for(pods + changed, within=300.0)
            return {
                "server_mb": cluster.resident(),
                "server_cpu_ms_per_change": (cluster.cpu() - cpu) * 1000 / changed,
            }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the slope of a line that is fitted to the logarithms: 1 if the values grow as the sizes do.

    None for fewer than three values, and if the line explains less than 90 % of their variance: they are noise.
    """
    if len(sizes) < 3:
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    if statistics.correlation(x, y) ** 2 < EXPLAINED:
        return None
    return statistics.linear_regression(x, y).slope


def curve(figures: Sequence[Mapping[str, Any]], dimension: str, figure: str) -> tuple[list[int], list[float]]:
    """Return the sizes and the medians of what a figure has grown above the small cluster, from a kept run.

    Values that are not above it are left out, because they have no logarithm.
    """
    bench = f"growth by {dimension}"
    found = {int(row["who"]): row for row in figures if (row["benchmark"], row["figure"]) == (bench, figure)}
    small = [row["values"] for row in figures if (row["benchmark"], row["figure"]) == (SMALL, figure)]
    base = statistics.median(small[0]) if small and dimension != "watchers" else 0.0
    grown = {size: statistics.median(row["values"]) - base for size, row in sorted(found.items())}
    return [size for size, value in grown.items() if value > 0], [value for value in grown.values() if value > 0]
