"""Token cleaner: upstream's cases, failures, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/bootstrap/tokencleaner_test.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.bootstrap.token_cleaner import SPEC, TokenCleaner
from kcm.actors.controllers.bootstrap.token_secrets import LONGEST_WAIT
from kcm.actors.reconciliation import RequeueAfter
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Bench, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import SECRETS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.controllers.bootstrap.objects import KEY, expiring, token


def scene(*secrets: Object) -> tuple[Bench, TokenCleaner]:
    bench = Bench({SECRETS: secrets})
    return bench, TokenCleaner(tables=bench.tables, clock=bench.clock, log=quiet_log())


@pytest.mark.parametrize(
    ("secret", "again"),
    [
        (token(), None),
        (expiring(NOW + 5), 5.0),
        (expiring(NOW + 1e6), LONGEST_WAIT),
        (expiring(NOW - 3600, type="Opaque"), None),
    ],
)
def test_unexpired_token_is_kept(secret: Object, again: float | None) -> None:
    bench, cleaner = scene(secret)
    driven = drive(cleaner, KEY, bench.accept, tables=bench.tables)
    assert driven.commands == []
    assert driven.result == (None if again is None else RequeueAfter(again))


@pytest.mark.parametrize("secret", [expiring(NOW - 3600), expiring(NOW), token({"expiration": "garbage"})])
def test_expired_token_is_deleted_with_uid_and_version_as_preconditions(secret: Object) -> None:
    bench, cleaner = scene({**secret, "metadata": {**secret["metadata"], "resourceVersion": "7"}})
    [command] = drive(cleaner, KEY, bench.accept, tables=bench.tables).commands
    assert command == Delete("v1/secrets", KEY, uid="uid-of-bootstrap-token-abc123", resource_version="7")
    assert drive(cleaner, KEY, bench.accept, tables=bench.tables).commands == []


@pytest.mark.parametrize(
    ("outcome", "fails"),
    [(NotFound("gone"), False), (Conflict("extended"), True), (ServerFailure("x"), True), (Unknown("?"), True)],
)
def test_failed_deletion_is_retried(outcome: Outcome, fails: bool) -> None:
    def answer(_command: Command) -> Outcome:
        return outcome

    bench, cleaner = scene(expiring(NOW))
    driven = drive(cleaner, KEY, answer, tables=bench.tables, raises=CommandError if fails else None)
    assert len(driven.commands) == 1


def test_token_is_deleted_at_its_expiry_even_after_an_extension(cluster: SimulatedCluster) -> None:
    cluster.manager(options=read_options([f"--controllers={SPEC.name}"]))
    now = cluster.clock.now()
    other = "bootstrap-token-def456"
    cluster.create(SECRETS, expiring(now + 2))
    cluster.create(SECRETS, expiring(now + 20, name=other))
    cluster.create(SECRETS, token(name="bootstrap-token-stays0"))
    cluster.create(SECRETS, expiring(now - 20, name="of-another-type", type="Opaque"))
    cluster.create(SECRETS, {**expiring(now - 20), "metadata": {"name": "elsewhere", "namespace": "default"}})
    cluster.run_for(10)
    extended = expiring(now + 60)["data"]["expiration"]
    cluster.merge(SECRETS, f"kube-system/{other}", {"data": {"expiration": extended}})
    gone: dict[str, float] = {}
    names = {"bootstrap-token-abc123", other, "bootstrap-token-stays0", "of-another-type"}
    while cluster.clock.now() < now + 100:
        there = {secret["metadata"]["name"] for secret in cluster.list(SECRETS, "kube-system")}
        gone |= {name: cluster.clock.now() - now for name in names - there - gone.keys()}
        cluster.run_for(1.0)
    assert gone.keys() == {"bootstrap-token-abc123", other}
    assert gone["bootstrap-token-abc123"] <= 10
    assert 60 <= gone[other] <= 62
    assert len(cluster.list(SECRETS, "default")) == 1


def test_corrected_clock_delays_deletion_by_a_minute_at_most() -> None:
    behind = Fault(kind=FaultKind.CLOCK_JUMPED, start=0.0, until=20.0, seconds=-3600.0)
    cluster = SimulatedCluster(faults=(behind,))
    cluster.manager(options=read_options([f"--controllers={SPEC.name}"]))
    cluster.create(SECRETS, expiring(cluster.clock.now() + 10))
    cluster.run_for(20)
    assert cluster.get(SECRETS, KEY) is not None
    assert cluster.run_until(lambda: cluster.get(SECRETS, KEY) is None, within=61)
