"""Repeated swaps between kube-controller-manager and kcm on a real control plane under load.

    KUBEBUILDER_ASSETS=… python -m tests.e2e.swap_rounds --cycles 5

A cycle replaces kube-controller-manager by kcm and kcm by kube-controller-manager. Both have the flags that kubeadm
gives, the same user, one service account per controller, and the same Lease with the default durations. The successor
waits for the Lease as a standby while the leader ends by SIGKILL or SIGTERM; with --cold it starts after the leader has
ended, as when a kubelet replaces a static pod. Meanwhile Deployments, StatefulSets and a DaemonSet are scaled and
rolled out, and Jobs run to completion, on hollow nodes.

The result is judged by the audit log of the server (writes of a manager that does not hold the Lease) and by watches
(pods that were deleted, replaced or restarted although no change of the workload explains it).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import ssl
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.e2e.kubectl import Api, Kubectl, Object, is_ready, name_of, uid_of
from tests.e2e.leader_rounds import DEFAULT, LEASE, POLICY, Verdict, Write, judge, read_writes
from tests.e2e.programs import Program, ending, free_port, hollow_nodes, spawn, until
from tests.e2e.real_server import RealServer, binaries, real_server

REAL, OURS = "kube-controller-manager", "kcm"
Ending = Literal["kill", "stop"]
SIGNALS: dict[Ending, signal.Signals] = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}
NAMESPACE = "swaps"
NODES = 4
SETTLING = 4.0  # seconds of undisturbed work before each swap
PERIOD = 0.5  # seconds between two changes of workloads
FEW, MANY = 2, 7  # sizes between which workloads are scaled
COMPLETIONS = 4  # pods of each Job
# Requests with the verb create that change nothing.
READS = frozenset({"tokenreviews", "subjectaccessreviews", "selfsubjectreviews", "selfsubjectaccessreviews"})


# The managers.


def kubeadm_flags(server: RealServer) -> tuple[str, ...]:
    """Return the flags in the static pod of `kubeadm init --pod-network-cidr=10.244.0.0/16`, for this server."""
    keys, kubeconfig = server.directory, server.manager_kubeconfig
    return (
        "--allocate-node-cidrs=true",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--client-ca-file={keys / 'apiserver.crt'}",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        f"--cluster-signing-cert-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-key-file={keys / 'apiserver.key'}",
        "--controllers=*,bootstrapsigner,tokencleaner",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=true",
        f"--requestheader-client-ca-file={keys / 'apiserver.crt'}",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--use-service-account-credentials=true",
        # Not of kubeadm: the default directory does not exist here and cannot be created.
        f"--flex-volume-plugin-dir={keys / 'flex'}",
        "--v=2",
    )


@dataclass(frozen=True)
class RunningManager:
    """Process of one of the two managers."""

    name: str  # REAL or OURS
    program: Program
    port: int

    def is_ready(self) -> bool:
        """Report whether this manager can take over: its health page is served and, for kcm, its informers have synced.

        The informers of kube-controller-manager start only after it has acquired the Lease.
        """
        assert self.program.running, f"{self.name} ended:\n{self.program.text()[-3000:]}"
        if self.name == OURS and self.program.text().count('"Caches populated"') < 20:
            return False
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/healthz", timeout=5.0, context=context) as page:
                return bool(page.status == 200)
        except OSError:
            return False


def writer_of(event: Object) -> str | None:
    """Return the manager that sent a request, by its user agent; None for reads and for other programs.

    Both managers have the same users. Their user agents begin alike and differ in the commit.
    """
    agent = event.get("userAgent", "")
    if not agent.startswith("kube-controller-manager/") or (event.get("objectRef") or {}).get("resource") in READS:
        return None
    return OURS if " kubernetes/kcm-" in agent else REAL


# The load.


def _template(name: str, image: str, command: list[str] | None = None) -> Object:
    container: Object = {"name": "main", "image": image, **({"command": command} if command else {})}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def _workload(kind: str, name: str, replicas: int | None) -> Object:
    spec: Object = {"selector": {"matchLabels": {"app": name}}, "template": _template(name, "web:0")}
    if replicas is not None:
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _service(name: str) -> Object:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


WORKLOADS = (
    _workload("Deployment", "steady", 4),
    _workload("StatefulSet", "steady-set", 3),
    _workload("DaemonSet", "steady-daemons", None),
    _workload("Deployment", "scaled", FEW),
    _workload("Deployment", "rolled", 4),
    _workload("StatefulSet", "scaled-set", FEW),
    _workload("StatefulSet", "rolled-set", 3),
    _workload("DaemonSet", "rolled-daemons", None),
)
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets", "Service": "services"}
SERVICES = ("steady", "scaled", "rolled", "rolled-set")


class Load:
    """Changes of workloads, every PERIOD seconds until `end`."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.changes = 0
        self.images: Counter[str] = Counter()  # images so far, by workload that is rolled out
        self.jobs = 0
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def start(self) -> None:
        for workload in WORKLOADS:
            self._create(f"apps/v1/{PLURALS[workload['kind']]}", workload)
        for name in SERVICES:
            self._create("services", _service(name))
        self._thread.start()

    def end(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _create(self, resource: str, obj: Object) -> None:
        self.kubectl.api.request("POST", self.kubectl.path(resource), obj)

    def _patch(self, resource: str, name: str, spec: Object) -> None:
        path = self.kubectl.path(f"apps/v1/{resource}", name)
        self.kubectl.api.request("PATCH", path, {"spec": spec}, type="application/merge-patch+json")

    def _roll(self, resource: str, name: str) -> None:
        self.images[name] += 1
        self._patch(resource, name, {"template": _template(name, f"web:{self.images[name]}")})

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PERIOD):
                self._change(self.changes)
                self.changes += 1
        except BaseException as error:  # reported by the main thread
            self.error = error

    def _change(self, number: int) -> None:
        if number % 3 == 0:
            self._patch("deployments", "scaled", {"replicas": MANY if number % 2 else FEW})
        if number % 8 == 1:
            self._roll("deployments", "rolled")
        if number % 10 == 2:
            self._patch("statefulsets", "scaled-set", {"replicas": MANY if number % 20 == 2 else FEW})
        if number % 30 == 3:
            self._roll("statefulsets", "rolled-set")
        if number % 40 == 4:
            self._roll("daemonsets", "rolled-daemons")
        if number % 6 == 5:
            self.jobs += 1
            name = f"job-{self.jobs}"
            template = _template(name, "busybox", ["sleep", "1"])
            template["spec"]["restartPolicy"] = "Never"
            spec = {"completions": COMPLETIONS, "parallelism": 2, "template": template, "ttlSecondsAfterFinished": 30}
            self._create("batch/v1/jobs", {"metadata": {"name": name}, "spec": spec})


# What happened, by watches.


class History:
    """Events of one resource, followed by a watch without a gap from an empty collection on."""

    def __init__(self, api: Api, path: str) -> None:
        self.events: list[tuple[str, Object]] = []
        self.error: BaseException | None = None
        self._api, self._path = api, path
        self._version = str(api.get(path)["metadata"]["resourceVersion"])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}")
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._follow()
        except BaseException as error:  # reported by the main thread
            self.error = error

    def _follow(self) -> None:
        query = f"?watch=true&resourceVersion={self._version}&timeoutSeconds=3&allowWatchBookmarks=true"
        with self._api.open("GET", self._path + query) as response:
            for line in response:
                event = json.loads(line)
                assert event["type"] != "ERROR", f"a watch of {self._path} has a gap: {event}"
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.events.append((event["type"], event["object"]))


@dataclass
class PodLife:
    """History of one pod."""

    name: str
    owner: str  # uid of its controller
    kind: str  # of its controller
    app: str
    node: str = ""
    image: str = ""
    deleting: bool = False  # its deletion was requested
    restarts: int = 0
    failed: bool = False  # before its deletion was requested; one that is deleted before it starts may fail afterwards


def pod_lives(events: Iterable[tuple[str, Object]]) -> dict[str, PodLife]:
    """Return the pods that a watch showed, by uid, in the order of their creation."""
    lives: dict[str, PodLife] = {}
    for kind, pod in events:
        meta = pod["metadata"]
        owner = next((ref for ref in meta.get("ownerReferences") or () if ref.get("controller")), {})
        life = lives.setdefault(
            uid_of(pod),
            PodLife(name_of(pod), owner.get("uid", ""), owner.get("kind", ""), meta.get("labels", {}).get("app", "")),
        )
        life.node = pod["spec"].get("nodeName") or life.node
        life.image = pod["spec"]["containers"][0]["image"]
        life.deleting = life.deleting or kind == "DELETED" or "deletionTimestamp" in meta
        statuses = pod.get("status", {}).get("containerStatuses") or ()
        life.restarts = max([life.restarts, *(status["restartCount"] for status in statuses)])
        has_failed = pod.get("status", {}).get("phase") == "Failed" and "deletionTimestamp" not in meta
        life.failed = life.failed or has_failed
    return lives


def sizes(events: Iterable[tuple[str, Object]]) -> dict[str, list[int]]:
    """Return the successive values of spec.replicas by uid, without repetitions."""
    found: dict[str, list[int]] = defaultdict(list)
    for kind, obj in events:
        replicas = obj["spec"]["replicas"]
        history = found[uid_of(obj)]
        if kind != "DELETED" and (not history or history[-1] != replicas):
            history.append(replicas)
    return found


def _changes(history: list[int]) -> tuple[int, int]:
    """Return the sums of the increases, from 0 on, and of the decreases."""
    steps = [after - before for before, after in itertools.pairwise([0, *history])]
    return sum(step for step in steps if step > 0), -sum(step for step in steps if step < 0)


def unexplained(
    lives: dict[str, PodLife], replica_sets: dict[str, list[int]], *, scaled_down_to: int = FEW
) -> list[str]:
    """Return a line for each pod, or group of pods, that was created or deleted without a reason, restarted or failed.

    Reasons:
     - of a ReplicaSet: it creates as many pods as its size increased in sum, and deletes as many as it decreased
     - of a StatefulSet: the next pod of the name has another image, or `scaled-set` was scaled down below its ordinal
     - of a DaemonSet: the next pod on the node has another image
     - of a Job: it creates COMPLETIONS pods; they are deleted with the Job

    lives: by uid, in the order of creation.
    replica_sets: sizes by uid.
    """
    found = [f"{life.name} restarted {life.restarts} times" for life in lives.values() if life.restarts]
    found += [f"{life.name} failed" for life in lives.values() if life.failed]
    by_owner: dict[str, list[PodLife]] = defaultdict(list)
    for life in lives.values():
        by_owner[life.owner].append(life)
    for owner, pods in by_owner.items():
        kind, app = pods[0].kind, pods[0].app
        deleted = sum(pod.deleting for pod in pods)
        if kind == "ReplicaSet":
            more, less = _changes(replica_sets[owner])
            if len(pods) > more or deleted > less:
                found.append(
                    f"ReplicaSet of {app}, sizes {replica_sets[owner]}: {len(pods)} pods created, {deleted} deleted"
                )
        elif kind == "Job":
            if len(pods) != COMPLETIONS:
                found.append(f"{app}: {len(pods)} pods created")
        else:
            found += _unexplained_successions(pods, scaled_down_to if app == "scaled-set" else None)
    return found


def _unexplained_successions(pods: list[PodLife], scaled_down_to: int | None) -> Iterator[str]:
    """Yield a line for each deleted pod of a StatefulSet or DaemonSet whose deletion has no reason."""
    for number, pod in enumerate(pods):
        if not pod.deleting:
            continue
        if scaled_down_to is not None and int(pod.name.rpartition("-")[2]) >= scaled_down_to:
            continue
        place = "name" if pod.kind == "StatefulSet" else "node"
        later = next((life for life in pods[number + 1 :] if getattr(life, place) == getattr(pod, place)), None)
        if later is None or later.image == pod.image:
            yield f"{pod.name} of {pod.app} was deleted with image {pod.image}, and {later or 'nothing'} followed"


def lost_addresses(events: Iterable[tuple[str, Object]], service: str) -> list[str]:
    """Return a line for each ready address that was removed from the EndpointSlices of a Service."""
    found: list[str] = []
    ready: dict[str, set[str]] = {}
    for kind, slice_ in events:
        if slice_["metadata"].get("labels", {}).get("kubernetes.io/service-name") != service:
            continue
        endpoints = slice_.get("endpoints") or () if kind != "DELETED" else ()
        now = {address for end in endpoints if end["conditions"].get("ready") for address in end["addresses"]}
        lost = ready.get(name_of(slice_), set()) - now
        if lost:
            found.append(f"{name_of(slice_)} lost {sorted(lost)}")
        ready[name_of(slice_)] = now
    return found


# The swaps.


@dataclass
class Swap:
    """Figures of one swap. Times are Unix seconds, gaps are seconds from the signal."""

    old: str
    new: str
    ending: Ending
    at: float  # of the signal
    exited: float = 0.0  # until the old process had ended
    leading: float = float("nan")  # until the successor's acquisition of the Lease was stored
    writing: float = float("nan")  # until the successor's first write was received


@dataclass
class Result:
    """Outcome of all swaps."""

    swaps: list[Swap]
    verdict: Verdict
    unexplained: list[str]
    addresses: list[str]  # lost addresses of the Service whose pods do not change
    taints: list[str]  # NoExecute taints that nodes got
    pods: int  # number of pods that were created
    jobs: int
    changes: int  # number of rounds of changes

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        yield (
            f"{len(self.swaps)} swaps, {self.changes} rounds of changes, {self.pods} pods created, {self.jobs} Jobs, "
            f"{self.verdict.writes} writes by managers"
        )
        yield f"pods lost, replaced or restarted without a reason: {len(self.unexplained)}"
        yield f"ready addresses lost, taints added: {len(self.addresses)}, {len(self.taints)}"
        yield f"writes after another manager had the Lease: {len(self.verdict.deposed)}"
        yield f"writes without a valid Lease: {len(self.verdict.expired)}"
        for old, kind in itertools.product((REAL, OURS), SIGNALS):
            chosen = [swap for swap in self.swaps if (swap.old, swap.ending) == (old, kind)]
            if chosen:
                yield "; ".join([f"{old} ended by {kind:<4} {len(chosen)} times", *_figures(chosen)])
        yield from [*self.unexplained, *self.addresses, *self.taints]
        for write in [*self.verdict.deposed, *self.verdict.expired][:20]:
            yield f"{write.user} at {write.received:.3f}: {write.what} ({write.code})"


def _figures(swaps: Iterable[Swap]) -> Iterator[str]:
    chosen = list(swaps)
    for name, values in (
        ("old process ended", [swap.exited for swap in chosen]),
        ("Lease", [swap.leading for swap in chosen]),
        ("first write", [swap.writing for swap in chosen]),
    ):
        yield f"{name}: median {statistics.median(values):.2f} s, worst {max(values):.2f} s"


class Swapping:
    """Control plane, load and managers of a run."""

    def __init__(self, server: RealServer, *, cold: bool, flags: tuple[str, ...] = ()) -> None:
        self.server, self.cold = server, cold
        self.flags = (*kubeadm_flags(server), *flags)
        self.api = Api(server.kubeconfig)
        self.swaps: list[Swap] = []
        self._closing = ExitStack()
        self._starts = itertools.count(1)
        self._leader = self.start(REAL)
        until(self.holder, "kube-controller-manager leads", why=self._leader.program.text)
        nodes = f"{NODES} nodes are ready"
        self._closing.enter_context(hollow_nodes(server.kubeconfig, server.directory / "hollow.log", nodes=NODES))
        until(lambda: sum(_is_schedulable(node) for node in self.api.get("/api/v1/nodes")["items"]) == NODES, nodes)
        self.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.kubectl = Kubectl(self.api, NAMESPACE)
        accounts = self.kubectl.path("serviceaccounts")
        until(lambda: self.api.get(accounts)["items"], "the namespace has its default service account")
        paths = {
            "pods": self.kubectl.path("pods"),
            "replicasets": self.kubectl.path("apps/v1/replicasets"),
            "jobs": self.kubectl.path("batch/v1/jobs"),
            "slices": self.kubectl.path("discovery.k8s.io/v1/endpointslices"),
            "nodes": "/api/v1/nodes",
        }
        self.histories = {}
        for name, path in paths.items():
            self.histories[name] = History(self.api, path)
            self._closing.callback(self.histories[name].end)
        self.load = Load(self.kubectl)
        self._closing.callback(self.load.end)
        self.load.start()
        self.until_desired("steady", "steady-set", "steady-daemons")

    def close(self) -> None:
        self._closing.close()

    def start(self, name: str) -> RunningManager:
        port, number = free_port(), next(self._starts)
        binary = (
            [str(self.server.binaries / REAL)] if name == REAL else [sys.executable, "-P", "-m", "kcm.actors.command"]
        )
        program = spawn([*binary, *self.flags, f"--secure-port={port}"], self.server.directory / f"{number}-{name}.log")
        self._closing.enter_context(ending(program))
        return RunningManager(name, program, port)

    def holder(self) -> str:
        try:
            return str(self.api.get(LEASE)["spec"].get("holderIdentity") or "")
        except urllib.error.HTTPError:
            return ""

    def check(self) -> None:
        """Raise the error of the load or of a watch."""
        for part in (self.load, *self.histories.values()):
            if part.error is not None:
                raise part.error

    def swap(self, kind: Ending) -> Swap:
        """End the leader, wait until the other manager leads, and return the times of both by this process's clock."""
        old, before = self._leader, self.holder()
        name = OURS if old.name == REAL else REAL
        successor = None
        if not self.cold:
            successor = self.start(name)
            until(successor.is_ready, f"{name} waits for the Lease", why=successor.program.text)
        time.sleep(SETTLING)
        self.check()
        assert self.holder() == before, f"{old.name} does not lead any more"
        done = Swap(old.name, name, kind, time.time())
        os.kill(old.program.process.pid, SIGNALS[kind])
        old.program.process.wait(60.0)
        done.exited = time.time() - done.at
        successor = successor or self.start(name)
        until(lambda: self.holder() not in ("", before), f"{name} leads", within=90.0, why=successor.program.text)
        self._leader = successor
        self.swaps.append(done)
        return done

    def until_desired(self, *names: str) -> None:
        """Wait until the workloads of these names have their desired state; all, without names."""
        chosen = [obj for obj in WORKLOADS if not names or name_of(obj) in names]
        for obj in chosen:
            resource = f"apps/v1/{PLURALS[obj['kind']]}"

            def settled(resource: str = resource, name: str = name_of(obj)) -> bool:
                self.check()
                return _is_settled(self.kubectl.get(resource, name))

            until(settled, f"{name_of(obj)} has its desired state", within=120.0, why=self.kubectl.state)

    def end(self, say: Callable[[str], None]) -> Result:
        """End the load, wait until all workloads have their desired state, and return the result."""
        self.load.end()
        self.until_desired()
        until(self._has_no_running_job, "all Jobs are complete", within=120.0, why=self.kubectl.state)
        for service in SERVICES:

            def published(service: str = service) -> bool:
                ready = {pod["status"]["podIP"] for pod in self.kubectl.ready_pods(f"app={service}")}
                return ready == self._addresses(service)

            until(published, f"the slices of {service} contain its ready pods", why=self.kubectl.state)
        time.sleep(3.0)  # writes without a reason would be sent now
        self.check()
        self._closing.close()
        jobs = {
            name_of(job)
            for _, job in self.histories["jobs"].events
            for condition in job.get("status", {}).get("conditions") or ()
            if (condition["type"], condition["status"]) == ("Complete", "True")
        }
        writes = read_writes(self.server.directory / "audit.log", writer_of)
        verdict = judge(writes, duration=DEFAULT)
        self._complete(writes, verdict)
        lives = pod_lives(self.histories["pods"].events)
        result = Result(
            swaps=self.swaps,
            verdict=verdict,
            unexplained=[*unexplained(lives, sizes(self.histories["replicasets"].events)), *self._other_findings(jobs)],
            addresses=lost_addresses(self.histories["slices"].events, "steady"),
            taints=sorted(self._taints()),
            pods=len(lives),
            jobs=len(jobs),
            changes=self.load.changes,
        )
        for line in result.lines():
            say(line)
        return result

    def _has_no_running_job(self) -> bool:
        def is_complete(job: Object) -> bool:
            conditions = job.get("status", {}).get("conditions") or ()
            return any(condition["type"] == "Complete" for condition in conditions)

        return all(is_complete(job) for job in self.kubectl.items("batch/v1/jobs"))

    def _addresses(self, service: str) -> set[str]:
        slices = self.kubectl.items("discovery.k8s.io/v1/endpointslices", f"kubernetes.io/service-name={service}")
        return {
            address
            for slice_ in slices
            for endpoint in slice_.get("endpoints") or ()
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        }

    def _other_findings(self, jobs: set[str]) -> Iterator[str]:
        """Yield a line for each Job that did not complete, and for ReplicaSets that no change of a template explains.

        A ReplicaSet of the Deployment that is rolled out grows, then shrinks, as no template is used twice.
        """
        if len(jobs) != self.load.jobs:
            yield f"{self.load.jobs} Jobs were created, and {len(jobs)} were completed"
        by_app: dict[str, set[str]] = defaultdict(set)
        for _, replica_set in self.histories["replicasets"].events:
            by_app[replica_set["metadata"]["labels"]["app"]].add(uid_of(replica_set))
        history = sizes(self.histories["replicasets"].events)
        for app in sorted(by_app):
            number, most = len(by_app[app]), 1 + self.load.images[app]
            if number > most:
                yield f"Deployment {app} has had {number} ReplicaSets for {most} templates"
            for uid in by_app[app]:
                steps = [after > before for before, after in itertools.pairwise(history[uid])]
                if app == "rolled" and steps != sorted(steps, reverse=True):
                    yield f"ReplicaSet of {app} grew again: {history[uid]}"
                if app == "scaled" and not {*history[uid]} <= {FEW, MANY}:
                    yield f"ReplicaSet of {app} had other sizes than its Deployment: {history[uid]}"

    def _taints(self) -> Iterator[str]:
        for _, node in self.histories["nodes"].events:
            for taint in node["spec"].get("taints") or ():
                if taint["effect"] == "NoExecute":
                    yield f"{name_of(node)} was tainted {taint['key']} at {taint.get('timeAdded')}"

    def _complete(self, writes: list[Write], verdict: Verdict) -> None:
        """Add the gaps to the swaps, by the audit log."""
        for swap in self.swaps:
            acquired = next((at for at, user in verdict.acquired if at > swap.at and user == swap.new), None)
            if acquired is None:
                continue
            swap.leading = acquired - swap.at
            swap.writing = next(
                (
                    write.received - swap.at
                    for write in writes
                    if write.holder is None and write.user == swap.new and write.received > swap.at
                ),
                float("nan"),
            )


def _is_schedulable(node: Object) -> bool:
    return is_ready(node) and not node["spec"].get("taints")


def _is_settled(obj: Object) -> bool:
    """Report whether the status of a Deployment, StatefulSet or DaemonSet shows its desired state."""
    status = obj.get("status", {})
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return False
    if obj["kind"] == "DaemonSet":
        fields = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
        return {status.get(name, 0) for name in fields} == {NODES}
    fields = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
    return {status.get(name, 0) for name in fields} == {obj["spec"]["replicas"]}


def endings(cycles: int) -> Iterator[Ending]:
    """Yield how the leader ends in each swap: each manager ends by kill and by stop alternately."""
    for number in range(cycles):
        yield from ("kill", "stop") if number % 2 == 0 else ("stop", "kill")


def play(
    directory: Path,
    assets: Path,
    *,
    cycles: int,
    say: Callable[[str], None],
    cold: bool = False,
    flags: tuple[str, ...] = (),
) -> Result:
    """Swap the managers, and check all pods and writes.

    cycles: number of times that kube-controller-manager gives way to kcm and back.
    cold: the successor starts after the leader has ended.
    flags: more flags of both managers.
    """
    (directory / "policy.yml").write_text(POLICY)
    audit = (
        f"--audit-policy-file={directory / 'policy.yml'}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-maxsize=10000",
    )
    with real_server(directory, assets, *audit, disabled=()) as server:
        swapping = Swapping(server, cold=cold, flags=flags)
        try:
            for number, kind in enumerate(endings(cycles), 1):
                done = swapping.swap(kind)
                say(f"swap {number}: {done.old} ended by {kind}, then {done.new}")
            return swapping.end(say)
        finally:
            swapping.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=5, help="number of cycles of two swaps (default: 5)")
    parser.add_argument("--cold", action="store_true", help="start the successor after the leader has ended")
    parser.add_argument("--directory", type=Path, help="keep logs and the audit log in this directory")
    parser.add_argument("flags", nargs="*", help="more flags of both managers, after --")
    chosen = parser.parse_args()
    assets = binaries()
    if assets is None or not (assets / REAL).exists():
        parser.error("KUBEBUILDER_ASSETS does not name a directory with etcd, kube-apiserver and the real manager")
    with ExitStack() as closing:
        directory = chosen.directory or Path(closing.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        result = play(
            directory,
            assets,
            cycles=chosen.cycles,
            say=lambda line: print(line, flush=True),
            cold=chosen.cold,
            flags=tuple(chosen.flags),
        )
    verdict = result.verdict
    return 1 if verdict.deposed or verdict.expired or result.unexplained or result.addresses or result.taints else 0


if __name__ == "__main__":
    sys.exit(main())
