"""Candidate of coordinated leader election: the LeaseCandidate of a process."""

from __future__ import annotations

from functools import partial
from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.command.run_setup import candidacy_of
from kcm.actors.engine.elector import Candidacy, Election
from kcm.actors.engine.elector.candidate import LeaseCandidate, candidate_selection, is_pinged
from kcm.actors.engine.informer import Informer, InformerLimits, Outage
from kcm.actors.reconciliation.actor_names import informer_name
from kcm.protocols.messages.commands import Create, Submit, Update
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import Conflict, Done, Outcome, Settled
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import LEASE_CANDIDATES
from kcm.protocols.times import format_micro_time
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.tables.table import Table
from tests.support.scripted import Probe, ScriptedTransport

CANDIDACY = Candidacy(binary_version="1.36.2", emulation_version="1.35.0")
ELECTION = Election(identity="host_one", namespace="kube-system", name="lease", component="kcm", candidacy=CANDIDACY)


class CandidateRig:
    """LeaseCandidate with a real informer; the test plays the dispatcher and the server."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self.world = World(log=log)
        self.system = self.world.system()
        self.transport = ScriptedTransport()
        self.kept: list[Any] = []
        table = Table(LEASE_CANDIDATES, selection=candidate_selection(ELECTION))
        limits = InformerLimits(streaming_lists=True)
        informer = partial(Informer, table=table, transport=self.transport, limits=limits, outage=Outage())
        candidate = partial(LeaseCandidate, election=ELECTION, candidacy=CANDIDACY, table=table)
        for name, build in (
            ("dispatcher", partial(Probe, kept=self.kept)),
            (informer_name(table.id), informer),
            ("lease-candidate", candidate),
        ):
            self.system.spawn(ActorSpec(name=name, build=build))
        self.world.run_for(0)

    @property
    def commands(self) -> list[Any]:
        return [message.commands[0] for message in self.kept if isinstance(message, Submit)]

    def answer(self, outcome: Outcome) -> None:
        ticket = [message.ticket for message in self.kept if isinstance(message, Submit)][-1]
        self.system.tell("lease-candidate", Settled(ticket, 0, outcome))
        self.world.run_for(0)

    def sync(self, *candidates: Object) -> None:
        """Send the initial list, as a watch."""
        bookmark = {"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}
        self.transport.stream.say(*(("ADDED", found) for found in candidates), ("BOOKMARK", bookmark))
        self.world.run_for(0)

    def show(self, type: str, candidate: Object) -> None:
        self.transport.stream.say((type, candidate))
        self.world.run_for(0)


def candidate(version: int, *, renewed: float, pinged: float | None = None) -> Object:
    spec: Object = {"leaseName": "lease", "renewTime": format_micro_time(renewed), "strategy": "OldestEmulationVersion"}
    if pinged is not None:
        spec["pingTime"] = format_micro_time(pinged)
    meta = {"namespace": "kube-system", "name": "host_one", "uid": "u", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def created(log: FilteringBoundLogger) -> CandidateRig:
    """Return a rig whose LeaseCandidate was created, and is in the table."""
    rig = CandidateRig(log)
    rig.sync()
    rig.answer(Done(b"{}"))
    rig.show("ADDED", candidate(6, renewed=rig.world.clock.now()))
    return rig


def test_candidate_is_created_once_its_absence_is_known(log: FilteringBoundLogger) -> None:
    rig = CandidateRig(log)
    (watch,) = rig.transport.streams
    assert watch.request.path == "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
    assert watch.request.query["fieldSelector"] == "metadata.name=host_one"
    assert rig.commands == []
    rig.sync()
    (create,) = rig.commands
    assert isinstance(create, Create)
    body = decode_object(create.body)
    assert body["metadata"] == {"namespace": "kube-system", "name": "host_one"}
    assert body["spec"] == {
        "leaseName": "lease",
        "binaryVersion": "1.36.2",
        "emulationVersion": "1.35.0",
        "strategy": "OldestEmulationVersion",
        "renewTime": format_micro_time(rig.world.clock.now()),
    }


def test_ping_is_acknowledged_once(log: FilteringBoundLogger) -> None:
    rig = created(log)
    renewed = rig.world.clock.now()
    rig.world.run_for(10.0)
    assert len(rig.commands) == 1
    pinged = rig.world.clock.now()
    rig.show("MODIFIED", candidate(7, renewed=renewed, pinged=pinged))
    rig.world.run_for(1.0)
    (_, update) = rig.commands
    assert isinstance(update, Update)
    body = decode_object(update.body)
    assert not is_pinged(body)
    assert body["metadata"]["resourceVersion"] == "7"
    rig.answer(Done(b"{}"))
    rig.show("MODIFIED", candidate(8, renewed=pinged + 1.0, pinged=pinged))
    rig.world.run_for(60.0)
    assert len(rig.commands) == 2


def test_candidate_is_renewed_every_five_minutes(log: FilteringBoundLogger) -> None:
    rig = created(log)
    rig.world.run_for(299.0)
    assert len(rig.commands) == 1
    rig.world.run_for(2.0)
    assert [type(command) for command in rig.commands] == [Create, Update]


def test_failed_renewal_is_retried(log: FilteringBoundLogger) -> None:
    rig = CandidateRig(log)
    rig.sync()
    for number in range(1, 4):
        assert len(rig.commands) == number
        rig.answer(Conflict("changed"))
        rig.world.run_for(2.0)


def test_deleted_candidate_is_created_again(log: FilteringBoundLogger) -> None:
    rig = created(log)
    rig.show("DELETED", candidate(7, renewed=0.0))
    assert [type(command) for command in rig.commands] == [Create, Create]


def test_command_that_a_failed_dispatcher_lost_is_sent_again(log: FilteringBoundLogger) -> None:
    rig = CandidateRig(log)
    rig.sync()
    rig.system.tell("lease-candidate", Restarted("dispatcher", 2))
    rig.world.run_for(0)
    assert [type(command) for command in rig.commands] == [Create, Create]


def test_feature_gate_makes_this_process_a_candidate() -> None:
    assert candidacy_of(read_options([])) is None
    enabled = ["--feature-gates=CoordinatedLeaderElection=true", "--emulated-version=1.35"]
    assert candidacy_of(read_options(enabled)) == CANDIDACY
    assert candidacy_of(read_options(["--feature-gates=CoordinatedLeaderElection=false"])) is None
