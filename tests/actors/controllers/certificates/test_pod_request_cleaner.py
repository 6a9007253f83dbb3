"""The cleaner of PodCertificateRequests.

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
def test_what_goes(made: Object, goes: bool) -> None:
    deletions = look(made).of(Delete)
    assert [one.key for one in deletions] == (["default/bar"] if goes else [])
    assert all(one.uid for one in deletions)


def test_what_is_gone_or_another_is_no_error_and_a_failure_is_tried_again() -> None:
    old = [aged(LIFE, name) for name in "abc"]
    gone = {"default/a": NotFound(), "default/b": Conflict()}
    assert [one.key for one in look(*old, outcomes={**gone}).of(Delete)] == ["default/a", "default/b", "default/c"]
    with pytest.raises(CommandError):
        look(*old, outcomes={"default/a": ServerFailure("down")})


def test_a_time_that_is_none_keeps_its_request_and_no_other() -> None:
    bad = aged(0.0, "bad")
    bad["metadata"]["creationTimestamp"] = None
    assert [one.key for one in look(bad, aged(LIFE)).of(Delete)] == ["default/bar"]


def test_it_is_off_by_default() -> None:
    assert not SPEC.enabled_if(Options())
