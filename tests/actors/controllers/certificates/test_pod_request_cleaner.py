"""Tests of the cleaner of PodCertificateRequests.

Cases of kubernetes v1.36 pkg/controller/certificates/cleaner/pcrcleaner_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.certificates.pod_request_cleaner import POD_CERTIFICATE_REQUESTS, SPEC, PodRequestCleaner
from kcm.actors.options import Options
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive_steps
from kcm.actors.simulation.trials.certificates.pod_request_cleaner import request
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log

LIFE = 900.0
DENIED = {"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "Foo", "message": "abc"}]}}


def aged(age: float, name: str = "bar", **more: Any) -> Object:
    made = request(name)
    return {**made, "metadata": {**made["metadata"], "creationTimestamp": format_time(NOW - age)}, **more}


def look(*requests: Object, outcomes: dict[str, Outcome] | None = None) -> Driven:
    bench = Bench({POD_CERTIFICATE_REQUESTS: requests})

    def answer(command: Command) -> Outcome:
        known = (outcomes or {}).get(getattr(command, "key", ""))
        return bench.accept(command) if known is None else known

    cleaner = PodRequestCleaner(tables=bench.tables, clock=bench.clock, log=quiet_log())
    return drive_steps(cleaner.clean(), answer, tables=bench.tables)


@pytest.mark.parametrize(
    ("made", "goes"),
    [
        (aged(LIFE - 1), False),
        (aged(LIFE), True),
        (aged(LIFE + 1), True),
        (aged(LIFE - 1, **DENIED), False),
        (aged(LIFE + 1, **DENIED), True),
    ],
)
def test_only_old_requests_are_deleted(made: Object, goes: bool) -> None:
    deletions = look(made).of(Delete)
    assert [deletion.key for deletion in deletions] == (["default/bar"] if goes else [])
    assert all(deletion.uid for deletion in deletions)


def test_not_found_and_conflict_are_ignored_and_other_failures_raise() -> None:
    old = [aged(LIFE, name) for name in "abc"]
    gone = {"default/a": NotFound(), "default/b": Conflict()}
    deletions = look(*old, outcomes={**gone}).of(Delete)
    assert [deletion.key for deletion in deletions] == ["default/a", "default/b", "default/c"]
    with pytest.raises(CommandError):
        look(*old, outcomes={"default/a": ServerFailure("down")})


def test_request_with_invalid_time_is_kept_and_does_not_block_others() -> None:
    bad = aged(0.0, "bad")
    bad["metadata"]["creationTimestamp"] = None
    assert [deletion.key for deletion in look(bad, aged(LIFE)).of(Delete)] == ["default/bar"]


def test_cleaner_is_disabled_by_default() -> None:
    assert not SPEC.enabled_if(Options())
