"""Cost of the console.

    python -m tests.bench.console [--nodes 1000] [--rounds 3] [--seconds 30] [--rate 300]
    python -m tests.bench.console --churn [--nodes 1000] [--minutes 5] [--rate 300]

Starts the embedded cluster with hollow nodes, alternately without the console and with it, and measures the processor
time and the memory of the manager alone: idle and under changes of Deployments, with no viewer and with three. A viewer
reads the stream of a page, as a browser does. Three rounds take 20 minutes.

With --churn, Chromium shows every page at once, each in a tab of its own, under these changes for some minutes. The
memory of the scripts after a forced collection and that of the manager are flat if their median in the last third is
not above that in the first third, after a warm-up of a minute, by more than a tolerance. The exit code is 0 if all are.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp

from kcm import api_transport
from kcm.runtime.client.api import Request
from tests.bench.history import keep
from tests.bench.processes import cpu_of, resident_of
from tests.bench.report import Report
from tests.bench.run_info import Noise, run_info
from tests.e2e.programs import Program, ending, spawn, until
from tests.support.browser import Page, browser

SETTLE = 5.0  # seconds after a change of the load
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/console/#key=([\w-]+)")
VIEWED = ("system", "zones", "pods")
DEPLOYMENTS = 100
IN_FLIGHT = 64  # requests
WARM_UP = 60.0  # seconds
SAMPLING = 15.0  # seconds
# Growth that still counts as flat: a part of the median, and a number of MB.
PART, OF_SCRIPTS, OF_MANAGER = 0.03, 0.3, 3.0
PAGES = {
    "supervision": "tree",
    "graph": "tree?view=graph",
    "controllers": "controllers",
    "controller": "controllers/deployment-controller",
    "zones": "zones",
    "rates": "rates",
    "pods": "pods",
    "story": "story?kind=Deployment&namespace=default&name=bench-0",
    "why": "why?kind=Deployment&namespace=default&name=bench-0",
    "faults": "faults",
}
MANAGER, CHROMIUM = "manager", "Chromium"
WITHOUT, WITH, VIEWED_BY_THREE = "--console=false", "no viewer", "three viewers"


@contextmanager
def manager(directory: Path, *more: str, nodes: int, console: bool) -> Iterator[Program]:
    """Run the embedded cluster until its nodes are ready, and until the end of the block. more: flags."""
    flags = ["--embedded-in-memory", f"--embedded-dir={directory}", f"--hollow-nodes={nodes}", "--hollow-zones=10"]
    flags += more
    command = [sys.executable, "-P", "-m", "kcm.actors.command", *flags, f"--console={str(console).lower()}"]
    program = spawn(command, directory.parent / f"log-{console}")
    with ending(program):
        until(lambda: "To use it, in another terminal" in program.text(), "nodes are ready", within=300.0)
        yield program


class Churn:
    """Changes of annotations of Deployments without replicas, at some rate, from a thread."""

    def __init__(self, kubeconfig: Path, rate: int) -> None:
        self._rate, self._stopping = rate, threading.Event()
        self._closing = ExitStack()
        self._transport = self._closing.enter_context(api_transport(str(kubeconfig)))
        self._permits = threading.Semaphore(IN_FLIGHT)
        self.changes = self.failed = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Churn:
        for number in range(DEPLOYMENTS):
            self._send("POST", "", _deployment(number), "application/json")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._closing.close()

    def _run(self) -> None:
        due = time.monotonic()
        for number in itertools.count():
            due += 1 / self._rate
            if self._stopping.wait(max(0.0, due - time.monotonic())):
                return
            patch = {"metadata": {"annotations": {"bench/number": str(number)}}}
            self._send("PATCH", f"/bench-{number % DEPLOYMENTS}", patch, "application/merge-patch+json")
            self.changes += 1

    def _send(self, method: str, name: str, body: object, content_type: str) -> None:
        def answered(response: object) -> None:
            self.failed += getattr(response, "status", 0) >= 300 or getattr(response, "status", 0) == 0
            self._permits.release()

        self._permits.acquire()
        path = f"/apis/apps/v1/namespaces/default/deployments{name}"
        request = Request(method=method, path=path, body=json.dumps(body).encode(), content_type=content_type)
        self._transport.send(request, client="bench", on_response=answered)


def _deployment(number: int) -> dict[str, object]:
    labels = {"app": f"bench-{number}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"bench-{number}"}, "spec": spec}


class Viewers:
    """Readers of the streams of pages, in a thread of their own."""

    def __init__(self, link: str, topics: tuple[str, ...]) -> None:
        found = LINK.search(link)
        assert found is not None
        self._url, self._key = found.groups()
        self._topics = topics
        self.read = 0  # bytes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._watch()))

    def __enter__(self) -> Viewers:
        self._stopping = asyncio.Event()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    async def _watch(self) -> None:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._key}"}) as session:
            views = [asyncio.create_task(self._view(session, topic)) for topic in self._topics]
            await self._stopping.wait()
            for view in views:
                view.cancel()
            ended = await asyncio.gather(*views, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended), ended

    async def _view(self, session: aiohttp.ClientSession, topic: str) -> None:
        async with session.get(f"{self._url}/console/live/{topic}") as response:
            response.raise_for_status()
            async for chunk in response.content.iter_any():
                self.read += len(chunk)


def cpu_share(pid: int, seconds: float) -> float:
    """Return the processor time of a process in percent of one core."""
    time.sleep(SETTLE)
    began, before = time.monotonic(), cpu_of(pid)
    time.sleep(seconds)
    return 100 * (cpu_of(pid) - before) / (time.monotonic() - began)


def measure(program: Program, kubeconfig: Path, report: Report, *, who: str, seconds: float, rate: int) -> None:
    """Measure one round: idle and under changes; with the console, also while three viewers read."""
    pid = program.process.pid

    def scene(name: str, who: str) -> None:
        share = cpu_share(pid, seconds)
        report.add(name, who, cpu_percent=share, resident_mb=resident_of(pid))

    def scenes(name: str) -> None:
        scene(name, who)
        if who == WITH:
            with Viewers(program.text(), VIEWED) as viewers:
                scene(name, VIEWED_BY_THREE)
            print(f"    {viewers.read / (seconds + SETTLE) / 1000:.1f} kB/s read", flush=True)

    scenes("idle")
    with Churn(kubeconfig, rate) as churn:
        scenes(f"{rate} changes/s")
        print(f"    {churn.changes} changes, {churn.failed} failed", flush=True)


def costs(report: Report, noise: Noise, *, nodes: int, rounds: int, seconds: float, rate: int) -> None:
    noise.measure()
    for _ in range(rounds):
        for console in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                place = Path(directory) / "cluster"
                with manager(place, nodes=nodes, console=console) as program:
                    who = WITH if console else WITHOUT
                    measure(program, place / "kubeconfig", report, who=who, seconds=seconds, rate=rate)
            noise.measure()


async def show_all(
    program: Program, kubeconfig: Path, profile: Path, report: Report, *, rate: int, minutes: float
) -> list[str]:
    """Show all pages in tabs under changes. Return the complaints of the pages."""
    found = LINK.search(program.text())
    assert found is not None
    tabs: dict[str, Page] = {}
    async with browser(profile) as new_page:
        with Churn(kubeconfig, rate) as churn:
            for number, (name, address) in enumerate(PAGES.items()):
                tab: Page = await new_page()
                await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)  # as if it were the visible tab
                # A browser opens at most six connections to one host, and a page uses one all the time.
                place = found[1] if number % 2 else found[1].replace("127.0.0.1", "localhost")
                await tab.open(f"{place}/console/{address}#key={found[2]}")
                await tab.until("!!document.querySelector('main table, main svg, main .timeline')")
                assert not await tab.evaluate("document.hidden"), f"the tab of {name} is hidden"
                tabs[name] = tab
            began, before = time.monotonic(), churn.changes
            for number in itertools.count(1):
                await asyncio.sleep(max(0.0, began + number * SAMPLING - time.monotonic()))
                assert program.running, program.text()[-2000:]
                at = time.monotonic() - began
                for name, tab in tabs.items():
                    report.add(name, CHROMIUM, scripts_mb=await tab.heap() / 1_000_000)
                report.add(MANAGER, "kcm", resident_mb=resident_of(program.process.pid))
                if at >= 60 * minutes:
                    break
            shown = (churn.changes - before) / (time.monotonic() - began)
            print(f"{shown:.0f} changes per second, {churn.failed} failed", flush=True)
        return [f"{name}: {complaint}" for name, tab in tabs.items() for complaint in tab.complaints]


def growth(values: Sequence[float], tolerance: float) -> tuple[float, float]:
    """Return by how many MB the median of the last third is above that of the first, and the growth that is flat."""
    after = list(values)[round(WARM_UP / SAMPLING) :]
    third = max(1, len(after) // 3)
    first, last = statistics.median(after[:third]), statistics.median(after[-third:])
    return last - first, max(tolerance, PART * first)


def verdicts(report: Report) -> Iterator[tuple[str, bool]]:
    for (name, _, figure), values in report.figures.items():
        grown, allowed = growth(values, OF_MANAGER if name == MANAGER else OF_SCRIPTS)
        flat = grown <= allowed
        line = f"{name} {figure}: {values[0]:.2f} at first, {values[-1]:.2f} in the end, grown by {grown:+.2f} MB"
        yield f"{line} ({'flat' if flat else f'more than {allowed:.2f}'})", flat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--churn", action="store_true", help="show all pages under changes, and watch their memory")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--rate", type=int, default=300, help="changes per second")
    parser.add_argument("--minutes", type=float, default=5.0, help="of --churn")
    parser.add_argument("--keep", action="store_true", help="store the result in tests/bench/history")
    arguments = parser.parse_args()
    report, noise, info, failed = Report(), Noise(), run_info(), False
    if arguments.churn:
        noise.measure()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:  # Chromium may still write there
            place, profile = Path(directory) / "cluster", Path(directory) / "profile"
            # A manager that loses its Lease on a busy machine would end.
            with manager(place, "--leader-elect=false", nodes=arguments.nodes, console=True) as program:
                shown = show_all(
                    program,
                    place / "kubeconfig",
                    profile,
                    report,
                    rate=arguments.rate,
                    minutes=arguments.minutes,
                )
                complaints = asyncio.run(shown)
        noise.measure()
        found = [*verdicts(report), *((complaint, False) for complaint in complaints)]
        print("\n".join(line for line, _ in found))
        failed = not all(flat for _, flat in found)
    else:
        costs(
            report,
            noise,
            nodes=arguments.nodes,
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            rate=arguments.rate,
        )
        print(report.table())
    if arguments.keep:
        label = f"console-{'churn' if arguments.churn else 'cost'}-{arguments.nodes}-nodes"
        run = {**info, "label": label, "rounds": arguments.rounds, "noise": noise.as_json()}
        print(f"Stored in {keep({**run, 'figures': report.as_json()})}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
