"""Legacy token cleaner, driven directly: upstream's cases.

Cases: kubernetes v1.36 pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner_test.go.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.identity.legacy_token_cleaner import (
    DAY,
    INVALID_SINCE,
    LAST_USED,
    TRACKING,
    YEAR,
    LegacyTokenCleaner,
    check_period,
    date_of,
    read_date,
)
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete, Get, Patch
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS, SECRETS, SERVICE_ACCOUNTS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.controllers.identity.objects import account, token_secret

BEFORE, AFTER = (
    NOW - YEAR - DAY,
    NOW - YEAR + DAY,
)  # a token must have been used between
TODAY, LONG_AGO, LATELY = date_of(NOW), date_of(BEFORE), date_of(AFTER)


def secret(*, created: float = BEFORE, labels: dict[str, str] | None = None, **more: Any) -> Object:
    return token_secret(creationTimestamp=format_time(created), labels=labels or {}, **more)


def mounting(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [], **spec}}


def clean(
    *secrets: Object,
    accounts: list[Object] | None = None,
    pods: list[Object] | None = None,
    since: str | None = "2001-01-01",
    outcome: Outcome | None = None,
    raises: type[Exception] | None = None,
) -> Driven:
    listed = [account(secrets=("token",))] if accounts is None else accounts
    bench = Bench({SECRETS: secrets, SERVICE_ACCOUNTS: listed, PODS: pods or []})
    cleaner = LegacyTokenCleaner(tables=bench.tables, clock=bench.clock, log=quiet_log(), period=YEAR)

    def answer(command: Command) -> Outcome:
        if isinstance(command, Get):
            assert command.key == TRACKING
            return NotFound("x") if since is None else Done(encode_object({"data": {"since": since} if since else {}}))
        return outcome or bench.accept(command)

    return drive_steps(cleaner.clean(), answer, tables=bench.tables, raises=raises)


def done(driven: Driven) -> list[type[Command]]:
    assert isinstance(driven.commands[0], Get)
    return [type(command) for command in driven.commands[1:]]


@pytest.mark.parametrize("since", [None, "", "soon", "2001-13-01", "01-01-2001", date_of(NOW - YEAR)])
def test_nothing_is_deleted_before_usage_was_tracked_for_the_period(since: str | None) -> None:
    assert done(clean(secret(labels={INVALID_SINCE: LONG_AGO}), since=since)) == []


def test_first_day_of_tracking_does_not_count() -> None:
    assert done(clean(secret(), since=date_of(NOW - YEAR))) == []
    assert done(clean(secret(), since=date_of(NOW - YEAR - DAY))) == [Patch]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (secret(), [Patch]),
        (secret(labels={LAST_USED: LONG_AGO}), [Patch]),
        (secret(labels={INVALID_SINCE: "soon"}), [Patch]),
        (secret(labels={INVALID_SINCE: LATELY}), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}), [Delete]),
        (secret(labels={LAST_USED: LONG_AGO, INVALID_SINCE: LONG_AGO}), [Delete]),
        (secret(created=AFTER), []),
        (secret(labels={LAST_USED: LATELY}), []),
        (secret(labels={LAST_USED: LATELY, INVALID_SINCE: LONG_AGO}), []),
        (secret(labels={LAST_USED: "soon", INVALID_SINCE: LONG_AGO}), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}, deletionTimestamp="2026-01-01T00:00:00Z"), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}, of="other", uid=None), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}, of="", uid=None), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}, uid="another"), []),
        (secret(labels={INVALID_SINCE: LONG_AGO}, uid=None), [Delete]),
    ],
)
def test_unused_token_is_labelled_then_deleted(given: Object, expected: list[type[Command]]) -> None:
    assert done(clean(given)) == expected


def test_label_has_the_date_of_today_and_deletion_has_preconditions() -> None:
    [_, patch] = clean(secret()).commands
    assert isinstance(patch, Patch)
    assert orjson.loads(patch.body) == {"metadata": {"uid": "uid-of-token", "labels": {INVALID_SINCE: TODAY}}}
    [_, delete] = clean(secret(labels={INVALID_SINCE: LONG_AGO})).commands
    assert isinstance(delete, Delete)
    assert delete.uid == "uid-of-token"
    assert delete.resource_version


def test_token_that_its_account_does_not_list_is_kept() -> None:
    given = secret(labels={INVALID_SINCE: LONG_AGO})
    assert done(clean(given, accounts=[account(secrets=("other",))])) == []
    assert done(clean(given, accounts=[])) == []


SOURCES: list[Object] = [
    {"volumes": [{"name": "v", "secret": {"secretName": "token"}}]},
    {"volumes": [{"name": "v", "azureFile": {"secretName": "token"}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "token"}}]}}]},
    *(
        {"volumes": [{"name": "v", source: {"secretRef": {"name": "token"}}}]}
        for source in ("cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
    ),
    {"volumes": [{"name": "v", "csi": {"nodePublishSecretRef": {"name": "token"}}}]},
    {"imagePullSecrets": [{"name": "token"}]},
    {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "token"}}]}]},
    {"initContainers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "token"}}}]}]},
    {"ephemeralContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "token"}}]}]},
]


@pytest.mark.parametrize("spec", SOURCES, ids=lambda spec: str(spec)[:60])
def test_mounted_token_is_kept(spec: Object) -> None:
    given = secret(labels={INVALID_SINCE: LONG_AGO})
    assert done(clean(given, pods=[mounting("p", **spec)])) == []
    other = orjson.loads(orjson.dumps(spec).replace(b'"token"', b'"other"'))
    assert done(clean(given, pods=[mounting("p", **other)])) == [Delete]


@pytest.mark.parametrize(
    ("outcome", "fails"), [(NotFound("x"), False), (Conflict("x"), True), (ServerFailure("x"), True)]
)
def test_failed_write_is_retried(outcome: Outcome, fails: bool) -> None:
    driven = clean(secret(), outcome=outcome, raises=CommandError if fails else None)
    assert done(driven) == [Patch]


@pytest.mark.parametrize(
    ("text", "date"),
    [("2027-01-15", 1_799_971_200.0), ("2027-1-15", None), ("2027-02-30", None), ("", None), ("2027-01-15T", None)],
)
def test_only_iso_dates_are_parsed(text: str, date: float | None) -> None:
    assert read_date(text) == date
    if date is not None:
        assert date_of(date + DAY - 1) == text


def test_invalid_period_prevents_the_start() -> None:
    flag = "--legacy-service-account-token-clean-up-period"
    assert list(check_period(read_options([f"{flag}=1s"]))) == []
    [trouble] = check_period(read_options([f"{flag}=0s"]))
    assert trouble.endswith("invalid CleanUpPeriod: 0s")
