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
from functools import partial
from pathlib import Path

from tests.bench import counts
from tests.bench.history import keep, kept, trend
from tests.bench.measurements import BENCHES, Bench, Start
from tests.bench.nodes import simulated_nodes
from tests.bench.processes import embedded_cluster, has_assets, our_manager, real_cluster, real_manager
from tests.bench.replicas import replicas
from tests.bench.report import Report
from tests.bench.run_info import Noise, run_info
from tests.bench.scale.growth import DIMENSIONS, growth
from tests.bench.scale.run import Scale, scale
from tests.bench.scenes import SCENES
from tests.bench.server_requests import requests
from tests.bench.server_sizes import sizes
from tests.bench.simulator import simulated_seconds
from tests.bench.workloads import Sizes

CLUSTERS = {"embedded": embedded_cluster, "kube-apiserver": real_cluster}


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
        help="API server to use; repeatable (default: all that are available)",
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
    return arguments


def measured(
    names: Sequence[str], arguments: argparse.Namespace, noise: Noise, sizes: Sizes, *, on: Sequence[str]
) -> Report:
    report, rounds = Report(), arguments.rounds
    large = Scale(factor=arguments.factor, faults=arguments.faults, real=not arguments.alone)
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
    noise.measure()
    for name in names:
        if name in without_managers:
            without_managers[name](report, rounds, noise.measure)
            noise.measure()
            continue
        for server in on:
            with CLUSTERS[server]() as cluster:
                bench = Bench(cluster, report, sizes)
                for _ in range(rounds):
                    for who, start in contestants:
                        BENCHES[name](bench, who, start)
                    noise.measure()
                bench.api.close()
    return report


def main() -> int:
    arguments = parsed()
    if arguments.history:
        print(trend(kept()))
        return 0
    if arguments.names == ["counts"]:
        return counts.run(reason=arguments.accept, where=arguments.where, exact=arguments.instructions)
    noise, info = Noise(), run_info()
    names = arguments.names or [*BENCHES, *WITHOUT_MANAGERS]
    sizes = Sizes(stateful=arguments.pods)
    report = measured(names, arguments, noise, sizes, on=arguments.on or [*CLUSTERS])
    noise_figures = noise.as_json()
    print(
        f"\n{info['machine']['cores']} cores, load {noise_figures['load'][0]:.1f} to {noise_figures['load'][-1]:.1f}, "
        f"noise {noise_figures['spread']:.2f}×, {arguments.rounds} rounds\n\n{report.table()}"
    )
    run = {
        **info,
        "label": arguments.keep or "",
        "rounds": arguments.rounds,
        "noise": noise_figures,
        "figures": report.as_json(),
    }
    if arguments.json or arguments.keep is not None:
        run["counts"] = {scene: taken["cost"] for scene, taken in counts.take().items()}
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1) + "\n")
    if arguments.keep is not None:
        print(f"\nStored as {keep(run)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
