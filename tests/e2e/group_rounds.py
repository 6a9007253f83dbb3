"""Repeated loss of a replica among three that share groups of controllers, and a check of every write.

    python -m tests.e2e.group_rounds --rounds 50

The replicas share the embedded server; each has a user of its own and reaches the server through a proxy of its own. A
client scales a Deployment and creates Jobs all the time, so that several groups write. In each round one replica is
killed (SIGKILL), frozen (SIGSTOP, and SIGCONT after its groups were taken over), stopped (SIGTERM) or partitioned.
Afterwards the audit log must contain no write of a replica for a group that was received after another replica had
acquired the group's Lease or, at any time, after its own lease had expired.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kcm.actors.app.controller_groups import BUILT_IN_GROUPS
from kcm.actors.app.controller_plans import client_of
from kcm.actors.controllers.built_in import BUILT_IN
from tests.e2e.leader_rounds import (
    AFTERWARDS,
    SETTLING,
    SHORT,
    USER,
    WRITES,
    Competitor,
    Rounds,
    Write,
    judge,
    seconds_of,
)
from tests.e2e.programs import until

KINDS = ("kill", "freeze", "stop", "partition")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IN_GROUP = f"{LEASES}?labelSelector=kcm.dev%2Fgroup"
GROUP = re.compile(r"/leases/kube-controller-manager-group-([a-z0-9-]+)")
IDENTITY = re.compile(r'"Successfully acquired lease".*-group-.*identity="?([^" ]+)')
GROUPS_OF_CLIENTS: Mapping[str, str] = {client_of(spec): BUILT_IN_GROUPS.group_of(spec.name) for spec in BUILT_IN}
FEW = "replicaset-controller,deployment-controller,job-controller,garbage-collector-controller"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {generateName: batch-, namespace: default}
spec:
  parallelism: 2
  completions: 2
  ttlSecondsAfterFinished: 5
  template:
    metadata: {labels: {app: batch}}
    spec: {restartPolicy: Never, containers: [{name: main, image: "nginx:1"}]}
"""


def read_group_writes(path: Path, users: Iterable[str]) -> dict[str, list[Write]]:
    """Return the writes of the replicas for each group, with those of its Lease, in the order of their receipt."""
    names = {f"{USER}{user}": user for user in users}
    found: dict[str, list[Write]] = {}
    for line in path.read_bytes().splitlines():
        event = json.loads(line)
        user = names.get(event["user"]["username"])
        if user is None or event["verb"] not in WRITES:
            continue
        lease = (event.get("requestObject") or {}) if "/leases" in event["requestURI"] else {}
        named = GROUP.search(event["requestURI"]) or GROUP.search(f"/leases/{lease.get('metadata', {}).get('name')}")
        group = named[1] if named else GROUPS_OF_CLIENTS.get(event["userAgent"].rpartition("/")[2])
        if group is None:
            continue  # the main Lease, and those of replicas
        found.setdefault(group, []).append(
            Write(
                user=user,
                received=seconds_of(event["requestReceivedTimestamp"]),
                completed=seconds_of(event["stageTimestamp"]),
                what=f"{event['verb']} {event['requestURI']}",
                code=event.get("responseStatus", {}).get("code", 0),
                holder=(lease.get("spec", {}).get("holderIdentity") or "") if named else None,
            )
        )
    return {group: sorted(writes, key=lambda write: write.received) for group, writes in found.items()}


@dataclass
class GroupRound:
    """Figures of one round, in seconds from the disturbance."""

    kind: str
    replica: str
    groups: tuple[str, ...]  # that it held
    takeover: float = 0.0  # until other replicas held all of them


@dataclass
class Result:
    """Result of all rounds."""

    rounds: list[GroupRound] = field(default_factory=list)
    writes: int = 0
    without_lease: list[tuple[str, Write]] = field(default_factory=list)  # (group, write)


class GroupRounds(Rounds):
    """Three replicas, their server, and the load."""

    def held(self) -> dict[str, str]:
        """Return the holder of each group."""
        leases = self.api.get(IN_GROUP)["items"]
        return {
            lease["metadata"]["labels"]["kcm.dev/group"]: lease["spec"].get("holderIdentity") or "" for lease in leases
        }

    def victim(self) -> tuple[Competitor, str, tuple[str, ...]] | None:
        """Return a replica that holds groups, its identity and these groups; None if a group has no holder."""
        held = self.held()
        known = {found: competitor for competitor in self.competitors for found in identities(competitor)[-1:]}
        if not held or not all(holder in known for holder in held.values()):
            return None
        identity = self.random.choice(sorted({*held.values()}))
        groups = tuple(group for group, holder in held.items() if holder == identity)
        return known[identity], identity, groups

    def disturb(self, kind: str) -> GroupRound:
        for competitor in self.competitors:
            if not competitor.alive:
                competitor.start()
        for competitor in self.competitors:
            until(competitor.is_ready, f"{competitor.name} is ready")
        self.api.request("POST", "/apis/batch/v1/namespaces/default/jobs", yaml.safe_load(JOB))
        time.sleep(SETTLING + self.random.uniform(0.0, 6.0))  # groups may move meanwhile
        replica, identity, groups = until(self.victim, "all groups are held")
        begun = GroupRound(kind, replica.name, groups)
        at = time.time()
        if kind == "partition":
            replica.proxy.cut()
        else:
            os.kill(replica.pid, {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}[kind])

        def is_taken_over() -> bool:
            held = self.held()
            return all(held.get(group) not in ("", identity, None) for group in groups)

        until(is_taken_over, f"{groups} are taken over after: {kind}", within=60.0)
        begun.takeover = time.time() - at
        time.sleep(AFTERWARDS + self.random.random())
        if kind == "freeze":
            os.kill(replica.pid, signal.SIGCONT)
        elif kind == "partition":
            replica.proxy.heal()
        if replica.name != "manager-3" or kind in ("kill", "stop"):  # otherwise it stands by again
            replica.running.program.process.wait(30.0)
        return begun


def identities(competitor: Competitor) -> list[str]:
    if competitor.manager is None:
        return []
    found: list[str] = IDENTITY.findall(competitor.running.program.text())
    return found


def play(
    directory: Path, *, count: int, seed: int, say: Callable[[str], None], controllers: str = "*", groups: str = "auto"
) -> Result:
    """Run this number of rounds, cycling through KINDS, and check all writes against the audit log."""
    result = Result()
    rounds = GroupRounds(
        directory, seed=seed, controllers=controllers, duration=SHORT, flags=(f"--leader-elect-groups={groups}",)
    )
    try:
        for number in range(count):
            done = rounds.disturb(KINDS[number % len(KINDS)])
            result.rounds.append(done)
            say(
                f"round {number + 1}: {done.kind} of {done.replica} with {', '.join(done.groups)}; "
                f"others hold them after {done.takeover:.2f} s"
            )
        until(lambda: not unfinished(rounds), "all pods and Jobs are as desired", why=lambda: unfinished(rounds))
    finally:
        rounds.close()
    for group, writes in read_group_writes(rounds.audit, [found.name for found in rounds.competitors]).items():
        verdict = judge(writes, duration=SHORT)
        result.writes += verdict.writes
        result.without_lease += [(group, write) for write in (*verdict.deposed, *verdict.expired)]
    for line in report(result):
        say(line)
    return result


def unfinished(rounds: GroupRounds) -> str:
    """Return what the controllers have not done yet; "" if the cluster is as desired. No kubelet runs pods."""
    deployment = rounds.api.get("/apis/apps/v1/namespaces/default/deployments/web")
    pods = rounds.api.get("/api/v1/namespaces/default/pods")["items"]
    web = [pod for pod in pods if pod["metadata"]["labels"]["app"] == "web"]
    jobs = rounds.api.get("/apis/batch/v1/namespaces/default/jobs")["items"]
    active = [job["metadata"]["name"] for job in jobs if job.get("status", {}).get("active") != 2]
    batch = len(pods) - len(web)
    if len(web) != deployment["spec"]["replicas"] or active or batch != 2 * len(jobs):
        return f"{len(web)} of {deployment['spec']['replicas']} pods, {batch} of {2 * len(jobs)} of Jobs; {active}"
    return ""


def report(result: Result) -> Iterator[str]:
    """Yield the lines of the result."""
    yield f"{len(result.rounds)} rounds, {result.writes} writes for groups"
    yield f"writes without the lease of the group: {len(result.without_lease)}"
    for kind in KINDS:
        times = [done.takeover for done in result.rounds if done.kind == kind]
        if times:
            yield (
                f"{kind:<10} {len(times):>3} rounds; takeover: median {statistics.median(times):.2f} s, "
                f"worst {max(times):.2f} s"
            )
    for group, write in result.without_lease[:20]:
        yield f"  {group}: {write.user} at {write.received:.3f}: {write.what} ({write.code})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="number of rounds (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random delays (default: 1)")
    parser.add_argument("--directory", type=Path, help="keep logs and the audit log in this directory")
    parser.add_argument("--controllers", default="*", help="--controllers of the replicas (default: *)")
    chosen = parser.parse_args()
    with ExitStack() as closing:
        directory = chosen.directory or Path(closing.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        result = play(
            directory,
            count=chosen.rounds,
            seed=chosen.seed,
            say=lambda line: print(line, flush=True),
            controllers=chosen.controllers,
        )
    return 1 if result.without_lease else 0


if __name__ == "__main__":
    sys.exit(main())
