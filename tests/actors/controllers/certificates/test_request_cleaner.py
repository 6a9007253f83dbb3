"""Tests of the cleaner of CertificateSigningRequests: its six rules, and passes over several requests.

Cases of kubernetes v1.36 pkg/controller/certificates/cleaner/cleaner_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.certificates.request_cleaner import SPEC, RequestCleaner, reason_to_clean
from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.keys import authority_pair
from tests.actors.controllers.certificates.builders import condition, csr

MINUTE, HOUR = 60.0, 3600.0
VALID = authority_pair("valid", begin=NOW - 2 * HOUR, end=NOW + HOUR).certificate
ENDED = authority_pair("ended", begin=NOW - 2 * HOUR, end=NOW - 1).certificate
ISSUED = "Cleaning CSR as it is more than approvedExpiration duration old and approved."
DENIED = "Cleaning CSR as it is more than deniedExpiration duration old and denied."
FAILED = "Cleaning CSR as it is more than deniedExpiration duration old and failed."
PENDING = "Cleaning CSR as it is more than pendingExpiration duration old and unhandled."
EXPIRED = "Cleaning CSR as the associated certificate is expired."
UNISSUED = "Cleaning CSR as it is approved but unissued for more than pendingExpiration duration."


def had(kind: str, age: float) -> list[dict[str, Any]]:
    return [condition(kind, age=age)]


CASES = [
    (csr(conditions=had("Approved", 50 * MINUTE), certificate=VALID), ""),
    (csr(conditions=had("Approved", 2 * HOUR), certificate=VALID), ISSUED),
    (csr(conditions=had("Approved", HOUR), certificate=VALID), ""),
    (csr(conditions=had("Approved", HOUR + 1), certificate=VALID), ISSUED),
    (csr(conditions=had("Approved", 50 * MINUTE)), ""),
    (csr(conditions=had("Approved", 5 * HOUR)), ""),
    (csr(conditions=had("Approved", 25 * HOUR)), UNISSUED),
    (csr(conditions=had("Denied", 50 * MINUTE)), ""),
    (csr(conditions=had("Denied", 2 * HOUR)), DENIED),
    (csr(conditions=[*had("Approved", 2 * HOUR), *had("Failed", 50 * MINUTE)]), ""),
    (csr(conditions=[*had("Approved", 2 * HOUR), *had("Failed", 2 * HOUR)]), FAILED),
    (csr(age=5 * HOUR), ""),
    (csr(age=25 * HOUR), PENDING),
    (csr(age=25 * HOUR, conditions=had("Approved", MINUTE)), ""),
    (csr(age=25 * HOUR, conditions=had("Other", 25 * HOUR)), ""),
    (csr(conditions=had("Approved", 50 * MINUTE), certificate=ENDED), EXPIRED),
    (csr(conditions=had("Other", 50 * MINUTE), certificate=ENDED), ""),
    (csr(conditions=had("Approved", 50 * MINUTE), certificate=b"garbage"), ""),
    (csr(conditions=had("Approved", 2 * HOUR), certificate=b"garbage"), ISSUED),
    (csr(conditions=[{"type": "Denied", "status": "True"}]), ""),
    (csr(conditions=[{"type": "Denied", "status": "True", "lastUpdateTime": None}]), ""),
]


@pytest.mark.parametrize(("request_", "reason"), CASES)
def test_request_is_deleted_by_age_and_condition(request_: Object, reason: str) -> None:
    expires = NOW - 1 if reason == EXPIRED else None
    assert reason_to_clean(request_, now=NOW, expires=expires) == reason
    driven, bench = look(request_)
    assert [deletion.key for deletion in driven.of(Delete)] == (["r"] if reason else [])
    assert bench is not None


def look(*requests: Object, outcomes: dict[str, Outcome] | None = None) -> tuple[Driven, Bench]:
    bench = Bench({CERTIFICATE_SIGNING_REQUESTS: requests})

    def answer(command: Command) -> Outcome:
        if isinstance(command, Delete) and command.key in (outcomes or {}):
            return (outcomes or {})[command.key]
        return bench.accept(command)

    cleaner = RequestCleaner(tables=bench.tables, clock=bench.clock, log=quiet_log())
    return drive_steps(cleaner.clean(), answer, tables=bench.tables), bench


def test_deletion_has_uid_and_version_as_preconditions() -> None:
    driven, _ = look(csr(age=25 * HOUR))
    [deletion] = driven.of(Delete)
    assert deletion.uid
    assert deletion.resource_version


def test_request_with_invalid_time_is_kept_and_does_not_block_others() -> None:
    bad = csr("bad", conditions=[{"type": "Denied", "status": "True", "lastUpdateTime": "soon"}])
    driven, _ = look(bad, csr(age=25 * HOUR))
    assert [deletion.key for deletion in driven.of(Delete)] == ["r"]


def test_failed_deletion_is_retried_and_does_not_block_others() -> None:
    old = [csr(name, age=25 * HOUR) for name in ("a", "b", "c", "d")]
    old.append(csr("e", conditions=had("Approved", MINUTE), certificate=ENDED))
    gone = {"b": NotFound(), "c": Conflict()}
    driven, _ = look(*old, outcomes={**gone})
    assert [deletion.key for deletion in driven.of(Delete)] == ["a", "b", "c", "d", "e"]
    with pytest.raises(CommandError):
        look(*old, outcomes={"a": ServerFailure("down")})


def test_pass_is_repeated_after_an_hour(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=(SPEC,))
    cluster.run_for(10)
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr(signer="example.com/other"), "status": {}})
    denial = {"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "No"}]}}
    cluster.merge(CERTIFICATE_SIGNING_REQUESTS, "r", denial, subresource="approval")
    cluster.run_for(HOUR + MINUTE)
    assert cluster.get(CERTIFICATE_SIGNING_REQUESTS, "r") is not None
    assert cluster.run_until(lambda: cluster.get(CERTIFICATE_SIGNING_REQUESTS, "r") is None, within=HOUR)
