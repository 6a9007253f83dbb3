"""Cost of the console: python -m tests.bench.console [--nodes 1000] [--seconds 30] [--churn 300] [--minutes 5]

Starts the embedded cluster with hollow nodes, without the console and with it, and measures the processor time and the
memory of the manager alone: idle and under changes of Deployments, with no viewer and with three, alternately. A viewer
reads the stream of a page, as a browser does. Then Chromium shows pages under these changes for some minutes, and the
memory of its scripts and of the manager is measured.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp

from kcm import api_transport
from kcm.runtime.client.api import Request
from tests.bench.processes import cpu_of, resident_of
from tests.e2e.programs import Program, ending, spawn, until
from tests.support.browser import browser

ROUNDS = 3
SETTLE = 5.0  # seconds after a change of the load
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/console/#key=([\w-]+)")
VIEWED = ("system", "zones", "pods")
DEPLOYMENTS = 100
IN_FLIGHT = 64  # requests


@contextmanager
def manager(directory: Path, *, nodes: int, console: bool) -> Iterator[Program]:
    flags = ["--embedded-in-memory", f"--embedded-dir={directory}", f"--hollow-nodes={nodes}", "--hollow-zones=10"]
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


def measure(program: Program, kubeconfig: Path, *, seconds: float, rate: int, viewed: bool) -> dict[str, list[float]]:
    """Return the shares of a core by scene, of several rounds. viewed: alternate with three viewers."""
    pid, found = program.process.pid, dict[str, list[float]]()

    def scene(name: str, figure: Callable[[], float]) -> None:
        value = figure()
        found.setdefault(name, []).append(value)
        print(f"  {name}: {value:.2f} % of a core, {resident_of(pid):.1f} MB", flush=True)

    def both(name: str) -> None:
        for _ in range(ROUNDS):
            scene(f"{name}, no viewer", lambda: cpu_share(pid, seconds))
            if viewed:
                with Viewers(program.text(), VIEWED) as viewers:
                    scene(f"{name}, three viewers", lambda: cpu_share(pid, seconds))
                print(f"    {viewers.read / (seconds + SETTLE) / 1000:.1f} kB/s read", flush=True)

    both("idle")
    with Churn(kubeconfig, rate) as churn:
        both(f"{rate} changes/s")
        print(f"  {churn.changes} changes, {churn.failed} failed", flush=True)
    return found


async def show_under_churn(program: Program, kubeconfig: Path, profile: Path, *, rate: int, minutes: float) -> None:
    """Show pages in Chromium, and print the memory of scripts and of the manager every half minute."""
    found = LINK.search(program.text())
    assert found is not None
    async with browser(profile) as new_page:
        page = await new_page()
        await page.open(found[0])
        await page.until("!!document.querySelector('tbody')")
        with Churn(kubeconfig, rate) as churn:
            began = time.monotonic()
            for address in itertools.cycle(("tree", "controllers", "pods")):
                await page.evaluate(f"document.querySelector('nav a[href$=\"/{address}\"]').click()")
                await asyncio.sleep(15.0)
                heap = await page.heap() / 1_000_000
                memory = resident_of(program.process.pid)
                at = time.monotonic() - began
                print(f"  {at:.0f} s, {address}: {heap:.2f} MB of scripts, manager {memory:.1f} MB", flush=True)
                if at >= 60 * minutes:
                    break
            # One page for a long time.
            await page.open(f"{found[1]}/console/controllers")
            for _ in range(round(2 * minutes)):
                await asyncio.sleep(30.0)
                print(f"  controllers: {await page.heap() / 1_000_000:.2f} MB of scripts", flush=True)
            print(f"  {churn.changes} changes, {churn.failed} failed; complaints: {page.complaints}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--churn", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=5.0)
    arguments = parser.parse_args()
    medians: dict[str, float] = {}
    for console in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory) / "cluster"
            with manager(place, nodes=arguments.nodes, console=console) as program:
                print(f"console {'on' if console else 'off'}, {arguments.nodes} nodes", flush=True)
                kubeconfig = place / "kubeconfig"
                seconds, rate = arguments.seconds, arguments.churn
                found = measure(program, kubeconfig, seconds=seconds, rate=rate, viewed=console)
                for scene, shares in found.items():
                    medians[f"console {'on' if console else 'off'}, {scene}"] = statistics.median(shares)
                if console and arguments.minutes:
                    profile = Path(directory) / "profile"
                    asyncio.run(show_under_churn(program, kubeconfig, profile, rate=rate, minutes=arguments.minutes))
    for scene, share in medians.items():
        print(f"{scene:60} {share:6.2f} % of a core")


if __name__ == "__main__":
    main()
