"""Repeated loss of the leader among three managers, and a check of every write by the audit log of the server.

    python -m tests.e2e.leader_rounds --rounds 50

The managers share the embedded server and one Lease; each has a user of its own and reaches the server through a proxy
of its own. A client changes a Deployment all the time, so that the leader writes all the time. In each round the leader
is stopped (SIGTERM), killed (SIGKILL), frozen (SIGSTOP, and SIGCONT after another leads) or partitioned (its proxy
forwards nothing until another leads). Afterwards the audit log must contain no write of a manager that was received
after another manager had acquired the Lease or, at any time, after its own lease had expired.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.partition_proxy import PartitionProxy
from tests.e2e.programs import Manager, run_kcm, until

Object = dict[str, Any]

KINDS = ("stop", "kill", "freeze", "partition")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
USER = "system:serviceaccount:kube-system:"
SHORT, DEFAULT = 4, 15  # lease durations in seconds
LEASE_FLAGS = {  # by lease duration
    SHORT: (
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    ),
    DEFAULT: (),
}
# More than the default, so that many writes are in flight when the leader is disturbed.
RATE_FLAGS = ("--kube-api-qps=100", "--kube-api-burst=200")
FEW_PODS, MANY_PODS = 3, 23  # sizes between which the Deployment changes
SETTLING = 1.5  # seconds of undisturbed work before each disturbance
AFTERWARDS = 2.0  # seconds after a takeover until the earlier leader may run again
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
"""


# The audit log.


@dataclass(frozen=True)
class Write:
    """A write of a manager. Times are Unix seconds, by the server's clock."""

    user: str  # name of the manager
    received: float
    completed: float
    what: str
    code: int
    holder: str | None = None  # for a write of the Lease: the new holderIdentity


@dataclass
class Verdict:
    """Result of the check of an audit log."""

    writes: int = 0  # writes of all managers, except those of the Lease
    deposed: list[Write] = field(default_factory=list)  # received after another manager had acquired the Lease
    expired: list[Write] = field(default_factory=list)  # received after the writer's lease had expired or was released
    acquired: list[tuple[float, str]] = field(default_factory=list)  # (completed, user) of each acquisition


def seconds_of(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def read_audit_log(path: Path, users: Iterable[str]) -> list[Write]:
    """Return the writes of these managers, in the order in which they were received."""
    names = {f"{USER}{user}": user for user in users}
    return read_writes(path, lambda event: names.get(event["user"]["username"]))


def read_writes(path: Path, writer: Callable[[Object], str | None]) -> list[Write]:
    """Return the writes in an audit log, in the order in which they were received.

    writer: returns the manager that sent the request of an audit event, or None for an event to skip.
    """
    writes = []
    for line in path.read_bytes().splitlines():
        event = json.loads(line)
        user = writer(event) if event["verb"] in WRITES else None
        if user is None:
            continue
        reference = event.get("objectRef") or {}
        is_lease = event["requestURI"].partition("?")[0] == LEASE or (
            reference.get("resource") == "leases" and reference.get("namespace") == "kube-system"
        )
        spec = (event.get("requestObject") or {}).get("spec") or {}
        writes.append(
            Write(
                user=user,
                received=seconds_of(event["requestReceivedTimestamp"]),
                completed=seconds_of(event["stageTimestamp"]),
                what=f"{event['verb']} {event['requestURI']}",
                code=event.get("responseStatus", {}).get("code", 0),
                holder=(spec.get("holderIdentity") or "") if is_lease else None,
            )
        )
    return sorted(writes, key=lambda write: write.received)


def judge(writes: Iterable[Write], *, duration: float) -> Verdict:
    """Compare the writes of managers with the history of the Lease.

    writes: in the order in which they were received.
    duration: of the lease, in seconds.
    """
    ordered = list(writes)
    leases = sorted(
        (write for write in ordered if write.holder is not None and 200 <= write.code < 300),
        key=lambda write: write.completed,
    )
    verdict = Verdict()
    number, holder, until_time = 0, "", 0.0
    for write in ordered:
        if write.holder is not None:
            continue
        while number < len(leases) and leases[number].completed <= write.received:
            lease = leases[number]
            new = lease.user if lease.holder else ""
            if new and new != holder:
                verdict.acquired.append((lease.completed, new))
            holder, until_time = new, lease.completed + duration
            number += 1
        verdict.writes += 1
        if holder != write.user:
            # The response of an acquisition may be sent before its stage is recorded.
            later = leases[number : number + 1]
            if later and later[0].user == write.user and later[0].holder and later[0].received <= write.received:
                continue
            (verdict.deposed if holder else verdict.expired).append(write)
        elif write.received > until_time:
            verdict.expired.append(write)
    for lease in leases[number:]:
        new = lease.user if lease.holder else ""
        if new and new != holder:
            verdict.acquired.append((lease.completed, new))
        holder = new
    return verdict


# The managers.


@dataclass
class Competitor:
    """One of the managers, with its proxy."""

    name: str
    kubeconfig: Path
    proxy: PartitionProxy
    flags: tuple[str, ...]
    directory: Path
    tables: int  # minimum number of tables
    starts: int = 0
    manager: Manager | None = None

    def start(self) -> None:
        self.starts += 1
        log = self.directory / f"{self.name}-{self.starts}.log"
        self.manager = run_kcm(log, f"--kubeconfig={self.kubeconfig}", *self.flags)

    @property
    def running(self) -> Manager:
        assert self.manager is not None
        return self.manager

    @property
    def pid(self) -> int:
        return self.running.program.process.pid

    @property
    def alive(self) -> bool:
        return self.manager is not None and self.manager.program.running

    def is_ready(self) -> bool:
        """Report whether its tables are filled. The informers of a standby run as well."""
        assert self.alive, f"{self.name} ended:\n{self.running.program.text()[-3000:]}"
        return self.running.program.text().count('"Caches populated"') >= self.tables

    def identity(self) -> str:
        found = re.findall(r'"Successfully acquired lease".*identity="?([^" ]+)', self.running.program.text())
        return found[-1] if found else ""


@dataclass
class Round:
    """Figures of one round, in seconds. writing: from the disturbance to the first write of the next leader."""

    kind: str
    leader: str
    at: float  # Unix seconds
    successor: str = ""
    leading: float = 0.0  # from the disturbance to the next leader's acquisition
    writing: float = 0.0
    ended: float | None = None  # from SIGCONT to the end of the frozen process; None if it stands by again


class Rounds:
    """Three managers, their server, and the load."""

    def __init__(
        self, directory: Path, *, seed: int, controllers: str, duration: int, flags: tuple[str, ...] = ()
    ) -> None:
        """Start the server and the load. flags: further flags of the managers."""
        self.directory = directory
        self.audit = directory / "audit.log"
        (directory / "policy.yml").write_text(POLICY)
        self.server: EmbeddedServer = launch(
            ServerSettings(
                directory=directory / "kcm",
                audit_policy_file=str(directory / "policy.yml"),
                audit_log_path=str(self.audit),
                audit_log_max_size=10_000,
                collect_garbage=False,
                empty_namespaces=False,
            )
        )
        self.api = Api(self.server.kubeconfig)
        self.random = random.Random(seed)
        self.rounds: list[Round] = []
        self.competitors: list[Competitor] = []
        self._closing = ExitStack()
        self._tables = 20 if controllers == "*" else 2
        self._stopped = threading.Event()
        for number in (1, 2, 3):
            on_loss = "standby" if number == 3 else "exit"
            all_flags = (
                *flags,
                *LEASE_FLAGS[duration],
                *RATE_FLAGS,
                f"--controllers={controllers}",
                f"--leader-elect-on-loss={on_loss}",
                "--v=2",
            )
            self.competitors.append(self._competitor(f"manager-{number}", all_flags))
        self.api.request("POST", "/apis/apps/v1/namespaces/default/deployments", yaml.safe_load(DEPLOYMENT))
        self._load = threading.Thread(target=self._change_deployment, daemon=True)
        self._load.start()

    def close(self) -> None:
        self._stopped.set()
        self._load.join()
        for competitor in self.competitors:
            if competitor.alive:
                os.kill(competitor.pid, signal.SIGKILL)
                competitor.running.program.process.wait()
        self._closing.close()
        self.server.stop()

    def _competitor(self, name: str, flags: tuple[str, ...]) -> Competitor:
        self.api.request("POST", ACCOUNTS, {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": name}],
        }
        self.api.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        lifetime = {"spec": {"expirationSeconds": 24 * 3600}}
        token = self.api.request("POST", f"{ACCOUNTS}/{name}/token", lifetime)["status"]["token"]
        proxy = self._closing.enter_context(PartitionProxy.serving(int(self.server.url.rpartition(":")[2])))
        config = yaml.safe_load(self.server.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        authority = config["clusters"][0]["cluster"].get("certificate-authority")
        if authority:
            path = (self.server.kubeconfig.parent / authority).resolve()
            config["clusters"][0]["cluster"]["certificate-authority"] = str(path)
        config["users"][0]["user"] = {"token": token}
        kubeconfig = self.directory / f"{name}.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        return Competitor(name, kubeconfig, proxy, flags, self.directory, self._tables)

    def _change_deployment(self) -> None:
        """Scale the Deployment up and down, so that controllers create and delete pods all the time."""
        number = 0
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        while not self._stopped.wait(0.4):
            number += 1
            change = {"spec": {"replicas": MANY_PODS if number % 2 else FEW_PODS}}
            self.api.request("PATCH", path, change, type="application/merge-patch+json")

    # One round.

    def leader(self) -> Competitor | None:
        """Return the manager that holds the Lease; None if it has no holder or an unknown one."""
        try:
            holder = self.api.get(LEASE)["spec"].get("holderIdentity") or ""
        except OSError:
            return None
        return next((found for found in self.competitors if holder and holder == found.identity()), None)

    def prepare(self) -> Competitor:
        """Start the managers that have ended, wait until all are ready and one leads, and return the leader."""
        for competitor in self.competitors:
            if not competitor.alive:
                competitor.start()
        for competitor in self.competitors:
            until(competitor.is_ready, f"{competitor.name} is ready")
        leader = until(self.leader, "a manager leads")
        time.sleep(SETTLING + self.random.random())
        return leader

    def run(self, kind: str) -> Round:
        leader = self.prepare()
        begun = Round(kind, leader.name, time.time())
        disturb: dict[str, Callable[[], None]] = {
            "stop": lambda: os.kill(leader.pid, signal.SIGTERM),
            "kill": lambda: os.kill(leader.pid, signal.SIGKILL),
            "freeze": lambda: os.kill(leader.pid, signal.SIGSTOP),
            "partition": leader.proxy.cut,
        }
        disturb[kind]()
        before = leader.identity()

        def successor() -> Competitor | None:
            found = self.leader()
            return found if found is not None and found.identity() != before else None

        begun.successor = until(successor, f"another manager leads after: {kind}", within=60.0).name
        time.sleep(AFTERWARDS + self.random.random())
        if kind == "freeze":
            thawed = time.time()
            os.kill(leader.pid, signal.SIGCONT)
            if leader.name != "manager-3":
                leader.running.program.process.wait(30.0)
                begun.ended = time.time() - thawed
        elif kind == "partition":
            leader.proxy.heal()
            if leader.name != "manager-3":
                leader.running.program.process.wait(30.0)
        elif kind in ("stop", "kill"):
            leader.running.program.process.wait(30.0)
        self.rounds.append(begun)
        return begun


def complete(rounds: Iterable[Round], writes: Iterable[Write], verdict: Verdict) -> None:
    """Add the gaps to the rounds, by the audit log."""
    ordered = list(writes)
    for done in rounds:
        # An acquisition that was completed before the disturbance is not the takeover.
        leading = next((at for at, user in verdict.acquired if at > done.at and user != done.leader), None)
        if leading is None:
            continue
        done.leading = leading - done.at
        writer = next(user for at, user in verdict.acquired if at == leading)
        first = next(
            (w.received for w in ordered if w.holder is None and w.user == writer and w.received >= leading - 1.0), None
        )
        done.writing = (first if first is not None else float("nan")) - done.at


def report(rounds: Iterable[Round], verdict: Verdict) -> Iterator[str]:
    """Yield the lines of the result."""
    played = list(rounds)
    yield f"{len(played)} rounds, {verdict.writes} writes, {len(verdict.acquired)} acquisitions"
    yield f"writes of a deposed manager: {len(verdict.deposed)}"
    yield f"writes without a valid lease: {len(verdict.expired)}"
    for kind in KINDS:
        of_kind = [done for done in played if done.kind == kind]
        if not of_kind:
            continue
        parts = [f"{kind:<10} {len(of_kind):>3} rounds"]
        for name, values in (
            ("to the lease", [done.leading for done in of_kind]),
            ("to the first write", [done.writing for done in of_kind]),
            ("SIGCONT to exit", [done.ended for done in of_kind if done.ended is not None]),
        ):
            if values:
                parts.append(f"{name}: median {statistics.median(values):.2f} s, worst {max(values):.2f} s")
        yield "; ".join(parts)
    for write in [*verdict.deposed, *verdict.expired][:20]:
        yield f"  {write.user} at {write.received:.3f}: {write.what} ({write.code})"


@contextmanager
def competing(directory: Path, *, seed: int, controllers: str, duration: int) -> Iterator[Rounds]:
    rounds = Rounds(directory, seed=seed, controllers=controllers, duration=duration)
    try:
        yield rounds
    finally:
        rounds.close()


@dataclass(frozen=True)
class Result:
    """Result of all rounds."""

    rounds: list[Round]
    verdict: Verdict


def play(
    directory: Path,
    *,
    count: int,
    seed: int,
    say: Callable[[str], None],
    controllers: str = "*",
    duration: int = SHORT,
) -> Result:
    """Run this number of rounds, cycling through KINDS, and check all writes against the audit log.

    duration: of the lease, in seconds; SHORT or DEFAULT.
    """
    with competing(directory, seed=seed, controllers=controllers, duration=duration) as rounds:
        for number in range(count):
            done = rounds.run(KINDS[number % len(KINDS)])
            ended = "" if done.ended is None else f", ended {done.ended:.2f} s after SIGCONT"
            say(f"round {number + 1}: {done.kind} of {done.leader}, then {done.successor}{ended}")
        time.sleep(1.0)
    writes = read_audit_log(rounds.audit, [competitor.name for competitor in rounds.competitors])
    verdict = judge(writes, duration=duration)
    complete(rounds.rounds, writes, verdict)
    for line in report(rounds.rounds, verdict):
        say(line)
    return Result(rounds.rounds, verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="number of rounds (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random delays (default: 1)")
    parser.add_argument("--directory", type=Path, help="keep logs and the audit log in this directory")
    parser.add_argument("--controllers", default="*", help="--controllers of the managers (default: *)")
    parser.add_argument(
        "--lease-duration", type=int, choices=LEASE_FLAGS, default=SHORT, help=f"in seconds (default: {SHORT})"
    )
    chosen = parser.parse_args()
    with ExitStack() as closing:
        directory = chosen.directory or Path(closing.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        verdict = play(
            directory,
            count=chosen.rounds,
            seed=chosen.seed,
            say=lambda line: print(line, flush=True),
            controllers=chosen.controllers,
            duration=chosen.lease_duration,
        ).verdict
    return 1 if verdict.deposed or verdict.expired else 0


if __name__ == "__main__":
    sys.exit(main())
