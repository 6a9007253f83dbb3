"""Runs upstream's conformance specs: `bin/run-conformance [CLUSTER] [--all] [--focus REGEX]`.

KUBEBUILDER_ASSETS names the directory of e2e.test. The specs that are listed as passing are run, and with --all also
the others, for a shorter time. Exits with 1 if a listed spec did not pass.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

from tests.conformance.clusters import CLUSTERS, enter_own_network
from tests.conformance.lists import Expected, differences, list_path
from tests.conformance.suite import Result, Suite, has_webhook, must_run_alone
from tests.conformance.webhook_pods import AGNHOST, webhooks_running


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="run-conformance", description=__doc__)
    parser.add_argument("cluster", nargs="?", default="embedded", choices=CLUSTERS)
    parser.add_argument("--all", action="store_true", help="also run the specs that are not listed as passing")
    parser.add_argument("--focus", default="", help="run only specs that match")
    parser.add_argument(
        "--limit", type=float, default=900.0, help="time limit in seconds of a spec that is listed as passing"
    )
    parser.add_argument("--limit-others", type=float, default=60.0, help="time limit in seconds of other specs")
    parser.add_argument("--parallel", type=int, default=2, help="number of specs that run at a time")
    parser.add_argument(
        "--webhooks", action="store_true", help="run the webhooks of pods, with agnhost from that directory"
    )
    parser.add_argument(
        "--update", action="store_true", help="rewrite the list; add the reasons of new failures by hand"
    )
    parser.add_argument("--logs", type=Path, help="directory for the output of the specs and the cluster")
    arguments = parser.parse_args(given)
    binary = binary_path()
    if binary is None:
        print("run-conformance: there is no e2e.test: KUBEBUILDER_ASSETS names the directory with it", file=sys.stderr)
        return 2
    agnhost = binary.with_name(AGNHOST)
    if arguments.webhooks and not agnhost.exists():
        print("run-conformance: there is no agnhost beside e2e.test", file=sys.stderr)
        return 2
    if arguments.cluster not in ("embedded", "gated") or arguments.webhooks:
        enter_own_network(given)
    with tempfile.TemporaryDirectory(prefix="kcm-conformance-") as temporary:
        home = (arguments.logs or Path(temporary)).resolve()
        home.mkdir(parents=True, exist_ok=True)
        return conformance(arguments, binary, home)


def binary_path() -> Path | None:
    binary = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")) / "e2e.test"
    return binary if binary.exists() else None


def conformance(arguments: argparse.Namespace, binary: Path, home: Path) -> int:
    """Run the chosen specs and print how the results differ from the list. An interrupted run prints those so far."""
    expected = Expected.read(list_path(arguments.cluster))
    begun = time.monotonic()
    results: list[Result] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(CLUSTERS[arguments.cluster](home, binary.parent))
        if arguments.webhooks:
            stack.enter_context(webhooks_running(cluster.kubeconfig, binary.with_name(AGNHOST), home / "webhooks"))
        suite = Suite(binary, cluster.kubeconfig, home, cluster.flags, cluster.gated)
        every = suite.specs()
        chosen = [spec for spec in every if re.search(arguments.focus, spec)]
        if not arguments.all:
            chosen = [spec for spec in chosen if spec in expected.passes]
        if not arguments.webhooks:
            chosen = [spec for spec in chosen if not has_webhook(spec)]
        try:
            for result in run_all(suite, chosen, expected, arguments):
                results.append(result)
                print(f"{len(results):4}/{len(chosen)} {describe(result)}", flush=True)
        finally:
            summary = summarize(arguments.cluster, expected, results, left=len(every) - len(results))
            print(f"{summary}, {time.monotonic() - begun:.0f} s")
            if arguments.update:
                path = list_path(arguments.cluster)
                Expected.read(path).after(results).write(path)
    return 1 if differences(expected, results).broken else 0


def summarize(cluster: str, expected: Expected, results: Sequence[Result], *, left: int) -> str:
    """Return the differences from the list, and the counts. left: number of specs that were not run."""
    found = differences(expected, results)
    lines = []
    for title, group in (
        ("Ceased to pass", found.broken),
        ("Began to pass", found.fixed),
        ("Fails, and is not listed", found.unknown),
    ):
        if group:
            lines += ["", f"{title}:", *(f"  {describe(result)}" for result in group)]
    counts = Counter(result.state.value for result in results)
    figures = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return "\n".join([*lines, "", f"{cluster}: {figures or 'nothing to run'}, {left} not run"])


def run_all(suite: Suite, specs: Sequence[str], expected: Expected, arguments: argparse.Namespace) -> Iterator[Result]:
    def run(spec: str) -> Result:
        return suite.run(spec, limit=arguments.limit if spec in expected.passes else arguments.limit_others)

    pool = ThreadPoolExecutor(arguments.parallel)
    try:
        running = [pool.submit(run, spec) for spec in specs if not must_run_alone(spec)]
        yield from (done.result() for done in as_completed(running))
    finally:  # interrupted: wait for the running specs, start no others
        pool.shutdown(cancel_futures=True)
    for spec in filter(must_run_alone, specs):
        yield run(spec)


def describe(result: Result) -> str:
    why = f": {result.why[:200]}" if result.why else ""
    return f"{result.state} {result.spec} ({result.seconds:.0f} s){why}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
