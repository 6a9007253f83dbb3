"""Measure the throughput, latency, CPU time and memory of kcm, beside kube-controller-manager and kube-apiserver if
KUBEBUILDER_ASSETS names a directory with their binaries.

Compare figures of the same run only: the managers take turns in each round, because the speed of a machine drifts. The
table contains the median, the minimum and the maximum of each figure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import counts
from tests.bench.history import keep, kept, trend
from tests.bench.measurements import BENCHES, Bench, Start
from tests.bench.nodes import simulated_nodes
from tests.bench.processes import embedded_cluster, has_assets, our_manager, real_cluster, real_manager
from tests.bench.replicas import replicas
from tests.bench.report import Report
from tests.bench.run_info import Noise, run_info
from tests.bench.scale.growth import DIMENSIONS, growth
from tests.bench.scale.heartbeats import INTERVAL
from tests.bench.scale.run import EMBEDDED, REAL, Scale, scale
from tests.bench.scenes import SCENES
from tests.bench.server_requests import requests
from tests.bench.server_sizes import sizes
from tests.bench.simulator import simulated_seconds
from tests.bench.workloads import Sizes

CLUSTERS = {EMBEDDED: embedded_cluster, REAL: real_cluster}


def simulator(report: Report) -> None:
    for scene, speed in simulated_seconds().items():
        report.add("simulator", scene, simulated_seconds_per_second=speed)
    for scene, cost in simulated_nodes().items():
        report.add("simulator", scene, seconds_per_simulated_second=cost)


# Benchmarks that start managers themselves, or none: name → function of the report, the number of rounds, and the
# measurement of noise.
WITHOUT_MANAGERS: dict[str, Callable[[Report, int, Callable[[], None]], None]] = {
    "simulator": lambda report, _rounds, _measure_noise: simulator(report),
    "requests": requests,
    "server-sizes": sizes,
    "replicas": replicas,
}

LONG = ("scale", "growth")  # the same with options; run only if they are named


def parsed() -> argparse.Namespace:
    benches = ", ".join([*BENCHES, *WITHOUT_MANAGERS])
    parser = argparse.ArgumentParser(prog="run-bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {benches} (default: all of these), {', '.join(LONG)}, or counts",
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: 3)")
    parser.add_argument(
        "--on",
        choices=CLUSTERS,
        action="append",
        help="API server to use; repeatable (default: all that are available; for scale: embedded)",
    )
    parser.add_argument(
        "--pods",
        type=int,
        default=Sizes().stateful,
        metavar="N",
        help="pods of stateful-ready, attached-volumes and device-claims (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to FILE as well")
    parser.add_argument(
        "--keep", nargs="?", const="", metavar="RELEASE", help="store the result in tests/bench/history as well"
    )
    parser.add_argument("--history", action="store_true", help="print the stored results without measuring")
    of_large = parser.add_argument_group("scale and growth", "options of `run-bench scale` and `run-bench growth`")
    of_large.add_argument(
        "--factor",
        type=float,
        default=0.1,
        help="size of the cluster of scale, 1 for 5,000 nodes and 150,000 pods (default: %(default)s)",
    )
    of_large.add_argument("--faults", action="store_true", help="run scale once more with cut watches and 429")
    of_large.add_argument("--alone", action="store_true", help="run scale without kube-controller-manager")
    of_large.add_argument(
        "--starts-only", action="store_true", help="measure only the starts of the managers, and the rest after them"
    )
    of_large.add_argument(
        "--lease-interval",
        type=float,
        default=INTERVAL,
        metavar="SECONDS",
        help="seconds between two renewals of a node's Lease in scale (default: %(default)s)",
    )
    of_large.add_argument("--by", choices=DIMENSIONS, action="append", help="measure growth by this; repeatable")
    of_counts = parser.add_argument_group(
        "counts", "options of `run-bench counts`, which counts the operations on the hot path, as CI does"
    )
    of_counts.add_argument(
        "--accept", metavar="WHY", help="record the new counts for this version of Python, with the reason WHY"
    )
    of_counts.add_argument(
        "--where",
        metavar="SCENE",
        action="append",
        default=[],
        help="print the functions in which the bytecodes of a scene are executed",
    )
    of_counts.add_argument(
        "--instructions",
        metavar="SCENE",
        action="append",
        default=[],
        help="count the processor's instructions, with perf or with valgrind (takes a minute)",
    )
    arguments = parser.parse_args()
    if arguments.names == ["counts"]:
        unknown = {*arguments.where, *arguments.instructions} - set(SCENES)
        if unknown:
            parser.error(f"no such scene: {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    elif arguments.accept is not None or arguments.where or arguments.instructions:
        parser.error("--accept, --where and --instructions go with `run-bench counts`")
    elif unknown := set(arguments.names) - {*BENCHES, *WITHOUT_MANAGERS, *LONG}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    elif "scale" in arguments.names and REAL in (arguments.on or ()) and not has_assets():
        parser.error("scale on kube-apiserver needs KUBEBUILDER_ASSETS")
    return arguments


def measure(
    report: Report, names: Sequence[str], arguments: argparse.Namespace, between: Callable[[], None], sizes: Sizes
) -> None:
    """Run benchmarks. between: called before and after each round or scene"""
    rounds, on = arguments.rounds, arguments.on or [*CLUSTERS]
    large = Scale(
        factor=arguments.factor,
        faults=arguments.faults,
        real=not arguments.alone,
        scenes=not arguments.starts_only,
        on=arguments.on or (EMBEDDED,),
        interval=arguments.lease_interval,
    )
    without_managers = {
        **WITHOUT_MANAGERS,
        "scale": partial(scale, sizes=large),
        "growth": partial(growth, dimensions=arguments.by or [*DIMENSIONS]),
    }
    contestants: list[tuple[str, Start]] = [("kcm", our_manager)]
    if has_assets():
        contestants.append(("kube-controller-manager", real_manager))
    else:
        on = [name for name in on if name != "kube-apiserver"]
        print("KUBEBUILDER_ASSETS is not set: no comparison with the real manager.", file=sys.stderr)
    between()
    for name in names:
        if name in without_managers:
            without_managers[name](report, rounds, between)
            between()
            continue
        for server in on:
            with CLUSTERS[server]() as cluster:
                bench = Bench(cluster, report, sizes)
                for _ in range(rounds):
                    for who, start in contestants:
                        BENCHES[name](bench, who, start)
                    between()
                bench.api.close()


@dataclass
class Result:
    """Result of a run, which is written to a file while it grows. path: None for no file"""

    path: Path | None
    label: str
    rounds: int
    report: Report = field(default_factory=Report)
    noise: Noise = field(default_factory=Noise)
    info: dict[str, Any] = field(default_factory=run_info)
    counts: dict[str, Any] = field(default_factory=dict)

    def checkpoint(self) -> None:
        """Measure the noise, and write what has been measured so far."""
        self.noise.measure()
        self.write()

    def write(self, *, with_counts: bool = False) -> None:
        if with_counts:
            self.counts = {scene: taken["cost"] for scene, taken in counts.take().items()}
        if self.path:
            self.path.write_text(json.dumps(self.run(), indent=1) + "\n")

    def run(self) -> dict[str, Any]:
        """Return the run as it is stored."""
        report = self.report
        return {
            **self.info,
            "label": self.label,
            "rounds": self.rounds,
            "noise": self.noise.as_json(),
            "figures": report.as_json(),
            **({"failures": report.failures} if report.failures else {}),
            **({"counts": self.counts} if self.counts else {}),
        }

    def table(self) -> str:
        noise = self.noise.as_json()
        if not noise["load"]:
            return self.report.table()
        return (
            f"\n{self.info['machine']['cores']} cores, load {noise['load'][0]:.1f} to {noise['load'][-1]:.1f}, "
            f"noise {noise['spread']:.2f}×, {self.rounds} rounds\n\n{self.report.table()}"
        )


def main() -> int:
    arguments = parsed()
    if arguments.history:
        print(trend(kept()))
        return 0
    if arguments.names == ["counts"]:
        return counts.run(reason=arguments.accept, where=arguments.where, exact=arguments.instructions)
    result = Result(arguments.json, label=arguments.keep or "", rounds=arguments.rounds)
    names = arguments.names or [*BENCHES, *WITHOUT_MANAGERS]
    try:
        measure(result.report, names, arguments, result.checkpoint, Sizes(stateful=arguments.pods))
    finally:
        print(result.table())
    if arguments.json or arguments.keep is not None:
        result.write(with_counts=True)
    if arguments.keep is not None:
        print(f"\nStored as {keep(result.run())}.")
    for failure in result.report.failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if result.report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
