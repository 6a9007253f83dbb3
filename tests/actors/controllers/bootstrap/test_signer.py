"""Bootstrap signer: upstream's cases, failures, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/bootstrap/bootstrapsigner_test.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.bootstrap.signer import CLUSTER_INFO, SPEC, BootstrapSigner
from kcm.actors.controllers.bootstrap.token_secrets import LONGEST_WAIT
from kcm.actors.reconciliation import RequeueAfter
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Update
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import CONFIGMAPS, SECRETS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.lister import UnreadableError
from tests.actors.controllers.bootstrap.objects import ID, KEY, expiring, token

SIGNATURE = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"  # of "payload"
SIGNED = {"kubeconfig": "payload", f"jws-kubeconfig-{ID}": SIGNATURE}


def info(data: dict[str, str] | None) -> Object:
    meta = {"name": "cluster-info", "namespace": "kube-public", "labels": {"a": "b"}}
    return {"metadata": meta, **({} if data is None else {"data": data})}


class Scene:
    def __init__(self, infos: list[Object], secrets: list[Object]) -> None:
        self.bench = Bench({CONFIGMAPS: infos, SECRETS: secrets})
        self.signer = BootstrapSigner(tables=self.bench.tables, clock=self.bench.clock, log=quiet_log())

    def sync(self, answer: Answer | None = None, *, raises: type[Exception] | None = None) -> Driven:
        answer = answer or self.bench.accept
        return drive(self.signer, CLUSTER_INFO, answer, tables=self.bench.tables, raises=raises)


@pytest.mark.parametrize(
    ("data", "secrets", "wanted"),
    [
        ({"kubeconfig": "payload"}, [token()], SIGNED),
        (SIGNED, [token()], None),
        ({**SIGNED, f"jws-kubeconfig-{ID}": "old signature"}, [token()], SIGNED),
        ({**SIGNED, f"jws-kubeconfig-{ID}": "old signature"}, [], {"kubeconfig": "payload"}),
        ({**SIGNED, "jws-kubeconfig-": "of nobody"}, [token()], SIGNED),
        ({**SIGNED, "other": "x"}, [token({"usage-bootstrap-signing": ""})], {"kubeconfig": "payload", "other": "x"}),
        ({"other": "x", f"jws-kubeconfig-{ID}": "old signature"}, [token()], None),
        (None, [token()], None),
        ({"kubeconfig": "payload"}, [], None),
    ],
)
def test_cluster_info_is_signed_with_each_valid_token(
    data: dict[str, str] | None, secrets: list[Object], wanted: dict[str, str] | None
) -> None:
    scene = Scene([info(data)], secrets)
    commands = scene.sync().commands
    if wanted is None:
        assert commands == []
        return
    [command] = commands
    assert isinstance(command, Update)
    written = decode_object(command.body)
    assert written["data"] == wanted
    assert written["metadata"]["labels"] == {"a": "b"}
    assert written["metadata"]["resourceVersion"], "a precondition"
    assert scene.sync().commands == [], "although the watch is late"


def test_missing_config_map_is_ignored() -> None:
    assert Scene([], [token()]).sync().commands == []


@pytest.mark.parametrize(
    ("secrets", "again"),
    [
        ([token()], None),
        ([expiring(NOW + 5), expiring(NOW + 9, name="bootstrap-token-def456")], 5.0),
        ([expiring(NOW + 1e6)], LONGEST_WAIT),
        ([expiring(NOW)], None),
    ],
)
def test_key_is_requeued_until_the_first_token_expires(secrets: list[Object], again: float | None) -> None:
    driven = Scene([info({"kubeconfig": "payload"})], secrets).sync()
    assert driven.result == (None if again is None else RequeueAfter(again))


@pytest.mark.parametrize(
    ("outcome", "fails"),
    [(NotFound("gone"), False), (Conflict("newer"), True), (ServerFailure("x"), True), (Unknown("?"), True)],
)
def test_failed_update_is_retried(outcome: Outcome, fails: bool) -> None:
    def answer(_command: Command) -> Outcome:
        return outcome

    scene = Scene([info({"kubeconfig": "payload"})], [token()])
    assert len(scene.sync(answer, raises=CommandError if fails else None).commands) == 1


def test_signature_of_unreadable_token_is_kept() -> None:
    """The token may still be valid."""
    scene = Scene([info(SIGNED)], [])
    scene.bench.spoil(SECRETS, KEY)
    assert scene.sync().commands == []
    scene.bench.spoil(CONFIGMAPS, CLUSTER_INFO)
    scene.sync(raises=UnreadableError)


def test_signature_is_removed_when_the_token_expires(cluster: SimulatedCluster) -> None:
    """The signer runs alone: the signature is removed although no controller deletes the token."""
    options = read_options([f"--controllers={SPEC.name}"])
    cluster.manager(options=options)
    cluster.create(CONFIGMAPS, info({"kubeconfig": "payload"}))
    cluster.create(SECRETS, token({"expiration": format_time(cluster.clock.now() + 30)}))

    def data() -> dict[str, str]:
        found = cluster.get(CONFIGMAPS, CLUSTER_INFO)
        assert found is not None
        return dict(found["data"])

    assert cluster.run_until(lambda: data() == SIGNED, within=10)
    cluster.run_for(15)
    assert data() == SIGNED
    assert cluster.run_until(lambda: data() == {"kubeconfig": "payload"}, within=16)
    assert cluster.get(SECRETS, KEY) is not None
