"""`bin/run-bench [NAME …] [--rounds N] [--json FILE]`: how fast, how large, beside the real manager if it is at hand.

The figures of one run may be compared with each other and with nothing else: managers take turns, round by round, on a
machine whose speed drifts, and the table shows the least and the most of each figure beside its median.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.bench import counts
from tests.bench.measurements import BENCHES, Bench, Start
from tests.bench.nodes import simulated_nodes
from tests.bench.processes import embedded_cluster, has_assets, our_manager, real_cluster, real_manager
from tests.bench.report import Report
from tests.bench.scenes import SCENES
from tests.bench.simulator import simulated_seconds


def simulator(report: Report) -> None:
    for what, speed in simulated_seconds().items():
        report.add("simulator", what, simulated_seconds_per_second=speed)
    for what, cost in simulated_nodes().items():
        report.add("simulator", what, seconds_per_simulated_second=cost)


def main() -> int:
    parser = argparse.ArgumentParser(prog="run-bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join([*BENCHES, 'simulator'])}; all of these if none, or counts",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
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
        return counts.run(reason=arguments.accept, where=arguments.where, exact=arguments.instructions)
    if arguments.accept is not None or arguments.where or arguments.instructions:
        parser.error("--accept, --where and --instructions go with `run-bench counts`")
    chosen = arguments.names or [*BENCHES, "simulator"]
    unknown = set(chosen) - {*BENCHES, "simulator"}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    report = Report()
    contestants: list[tuple[str, Start]] = [("kcm", our_manager)]
    clusters = [embedded_cluster]
    if has_assets():
        contestants.append(("kube-controller-manager", real_manager))
        clusters.append(real_cluster)
    else:
        print("KUBEBUILDER_ASSETS is not set: no comparison with the real manager.", file=sys.stderr)
    for name in chosen:
        if name == "simulator":
            simulator(report)
            continue
        for make in clusters:
            with make() as cluster:
                bench = Bench(cluster, report)
                for _ in range(arguments.rounds):
                    for who, start in contestants:
                        BENCHES[name](bench, who, start)
                bench.hand.close()
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds\n\n{report.table()}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report.as_json(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
