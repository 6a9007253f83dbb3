"""`bin/run-bench [NAME …] [--rounds N] [--json FILE] [--keep]`: how fast, how large, beside the real manager if there.

The figures of one run may be compared with each other and with nothing else: managers take turns, round by round, on a
machine whose speed drifts, and the table shows the least and the most of each figure beside its median.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import counts
from tests.bench.circumstances import Noise, circumstances
from tests.bench.history import keep, kept, trend
from tests.bench.measurements import BENCHES, Bench, Start
from tests.bench.nodes import simulated_nodes
from tests.bench.processes import embedded_cluster, has_assets, our_manager, real_cluster, real_manager
from tests.bench.report import Report
from tests.bench.scenes import SCENES
from tests.bench.server_requests import requests
from tests.bench.server_sizes import sizes
from tests.bench.simulator import simulated_seconds

CLUSTERS = {"embedded": embedded_cluster, "kube-apiserver": real_cluster}


def simulator(report: Report) -> None:
    for what, speed in simulated_seconds().items():
        report.add("simulator", what, simulated_seconds_per_second=speed)
    for what, cost in simulated_nodes().items():
        report.add("simulator", what, seconds_per_simulated_second=cost)


# Benchmarks that take no manager: name → how it is carried out, with the rounds and what listens for noise.
WITHOUT_MANAGERS: dict[str, Callable[[Report, int, Callable[[], None]], None]] = {
    "simulator": lambda report, _rounds, _listen: simulator(report),
    "requests": requests,
    "server-sizes": sizes,
}


def parsed() -> argparse.Namespace:
    benches = ", ".join([*BENCHES, *WITHOUT_MANAGERS])
    parser = argparse.ArgumentParser(prog="run-bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {benches}; all of these if none, or counts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--on", choices=CLUSTERS, action="append", help="only on this server (default: all there are)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    parser.add_argument(
        "--keep", nargs="?", const="", metavar="RELEASE", help="also keep the result in tests/bench/history"
    )
    parser.add_argument("--history", action="store_true", help="measure nothing; show what was kept")
    of_counts = parser.add_argument_group("counts", "`run-bench counts` counts what the hot path does, as CI checks it")
    of_counts.add_argument("--accept", metavar="WHY", help="record what is counted, for this version of Python")
    of_counts.add_argument(
        "--where", metavar="SCENE", action="append", default=[], help="show the functions of a scene"
    )
    of_counts.add_argument(
        "--instructions",
        metavar="SCENE",
        action="append",
        default=[],
        help="count the processor's instructions, by its own counter or by valgrind (a minute)",
    )
    arguments = parser.parse_args()
    if arguments.names == ["counts"]:
        unknown = {*arguments.where, *arguments.instructions} - set(SCENES)
        if unknown:
            parser.error(f"no such scene: {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    elif arguments.accept is not None or arguments.where or arguments.instructions:
        parser.error("--accept, --where and --instructions go with `run-bench counts`")
    elif unknown := set(arguments.names) - {*BENCHES, *WITHOUT_MANAGERS}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    return arguments


def measured(names: Sequence[str], rounds: int, noise: Noise, *, on: Sequence[str]) -> Report:
    report = Report()
    contestants: list[tuple[str, Start]] = [("kcm", our_manager)]
    if has_assets():
        contestants.append(("kube-controller-manager", real_manager))
    else:
        on = [name for name in on if name != "kube-apiserver"]
        print("KUBEBUILDER_ASSETS is not set: no comparison with the real manager.", file=sys.stderr)
    noise.listen()
    for name in names:
        if name in WITHOUT_MANAGERS:
            WITHOUT_MANAGERS[name](report, rounds, noise.listen)
            noise.listen()
            continue
        for where in on:
            with CLUSTERS[where]() as cluster:
                bench = Bench(cluster, report)
                for _ in range(rounds):
                    for who, start in contestants:
                        BENCHES[name](bench, who, start)
                    noise.listen()
                bench.hand.close()
    return report


def main() -> int:
    arguments = parsed()
    if arguments.history:
        print(trend(kept()))
        return 0
    if arguments.names == ["counts"]:
        return counts.run(reason=arguments.accept, where=arguments.where, exact=arguments.instructions)
    noise, about = Noise(), circumstances()
    names = arguments.names or [*BENCHES, *WITHOUT_MANAGERS]
    report = measured(names, arguments.rounds, noise, on=arguments.on or [*CLUSTERS])
    heard = noise.as_json()
    print(
        f"\n{about['machine']['cores']} cores, load {heard['load'][0]:.1f} to {heard['load'][-1]:.1f}, "
        f"noise {heard['spread']:.2f}×, {arguments.rounds} rounds\n\n{report.table()}"
    )
    run = {
        **about,
        "label": arguments.keep or "",
        "rounds": arguments.rounds,
        "noise": heard,
        "figures": report.as_json(),
    }
    if arguments.json or arguments.keep is not None:
        run["counts"] = {scene: found["cost"] for scene, found in counts.take().items()}
    if arguments.json:
        arguments.json.write_text(json.dumps(run, indent=1) + "\n")
    if arguments.keep is not None:
        print(f"\nKept as {keep(run)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
