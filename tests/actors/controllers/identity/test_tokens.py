"""Token controller, driven directly: upstream's cases.

Cases: kubernetes v1.36 pkg/controller/serviceaccount/tokens_controller_test.go, TestTokenCreation.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kcm.actors.controllers.identity.options import ServiceAccountOptions
from kcm.actors.controllers.identity.token_secrets import ACCOUNT_NAME, ACCOUNT_UID, BY_ACCOUNT
from kcm.actors.controllers.identity.tokens.reconciler import (
    AccountKey,
    SecretKey,
    Tokens,
    claims,
    deleted_account,
    secret_of_account,
)
from kcm.actors.controllers.identity.tokens.spec import SPEC
from kcm.actors.options import Options
from kcm.actors.reconciliation import Change
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive_steps, failing
from kcm.actors.simulation.trials.identity.key import key_file
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete, Get, Update
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome, ServerFailure
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Object, decode_object, encode_object, make_key, name_of, uid_of
from kcm.protocols.resources import SECRETS, SERVICE_ACCOUNTS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.controllers.identity.objects import account, token_secret

COMPLETE = {"token": "ABC", "ca.crt": "CA Data", "namespace": "default"}
TOKEN_KEY = SecretKey("default/token", "uid-of-token", "default", "uid-of-default")


class Scene:
    """Token controller and its tables.

    accounts, secrets: content of the tables.
    live: accounts of the API server that are not in the table.
    """

    def __init__(
        self,
        accounts: list[Object] | None = None,
        secrets: list[Object] | None = None,
        live: list[Object] | None = None,
    ) -> None:
        self.bench = Bench({SERVICE_ACCOUNTS: accounts or [], SECRETS: secrets or []}, indexes=(BY_ACCOUNT,))
        self.live = {make_key("default", name_of(account)): account for account in live or ()}
        self.tokens = Tokens(
            tables=self.bench.tables,
            sign=lambda claims: f"token of {claims['sub']}",
            authority=b"CA Data",
            log=quiet_log(),
        )

    def answer(self, command: Command) -> Outcome:
        if isinstance(command, Get) and command.resource == SERVICE_ACCOUNTS.id and command.key in self.live:
            live = self.live[command.key]
            return Done(encode_object({**live, "metadata": {**live["metadata"], "resourceVersion": "1"}}))
        return self.bench.accept(command)

    def secret(self, key: SecretKey = TOKEN_KEY, answer: Answer | None = None, **more: Any) -> Driven:
        running = self.tokens.reconcile_secret(key)
        return drive_steps(running, answer or self.answer, tables=self.bench.tables, **more)

    def sync_account(self, name: str = "default", uid: str = "uid-of-default", **more: Any) -> Driven:
        running = self.tokens.reconcile_account(AccountKey(f"default/{name}", uid))
        return drive_steps(running, more.pop("answer", self.answer), tables=self.bench.tables, **more)


def requests(driven: Driven) -> list[tuple[str, str]]:
    """Return the type of each command, and the resource and key that it names."""
    return [
        (type(command).__name__, f"{command.resource.rpartition('/')[2]} {command.key}") for command in driven.commands
    ]


def data_of(driven: Driven) -> dict[str, str]:
    [update] = driven.of(Update)
    data = decode_object(update.body)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


# Deleted accounts.


def test_tokens_of_deleted_account_are_deleted() -> None:
    others = [
        token_secret("of-another", of="other", uid="uid-of-other"),
        token_secret("of-one-before", uid="uid-of-one-before"),
        token_secret("elsewhere", namespace="elsewhere"),
    ]
    scene = Scene(secrets=[token_secret("filled"), token_secret("new", uid=None), *others])
    driven = scene.sync_account()
    assert sorted(deletion.key for deletion in driven.of(Delete)) == ["default/filled", "default/new"]
    assert {deletion.uid for deletion in driven.of(Delete)} == {"uid-of-filled", "uid-of-new"}
    assert [len(batch) for batch in driven.batches] == [1, 2], "a live read of the account, then all deletions at once"
    assert scene.sync_account().commands == [], "although the watch is late"


@pytest.mark.parametrize("shown", [False, True])
def test_secret_without_uid_is_kept_for_another_account_of_the_name(*, shown: bool) -> None:
    """The Secret was deleted if the other account was not in the table yet (seed 15000476 of all controllers)."""
    other = [account(uid="another")]
    secrets = [token_secret("old"), token_secret("new", uid=None)]
    driven = Scene(other if shown else [], secrets, live=other).sync_account()
    assert [deletion.key for deletion in driven.of(Delete)] == ["default/old"]


def test_tokens_of_existing_account_are_kept() -> None:
    assert Scene([account()], [token_secret()]).sync_account().commands == []


def test_tokens_of_replaced_account_are_deleted() -> None:
    driven = Scene([account(uid="another")], [token_secret("old"), token_secret("new", uid="another")]).sync_account()
    assert [deletion.key for deletion in driven.of(Delete)] == ["default/old"]


@pytest.mark.parametrize(("outcome", "fails"), [(NotFound("x"), False), (Conflict("x"), True), (ServerFailure(), True)])
def test_deletion_fails_unless_the_token_is_already_deleted(outcome: Outcome, fails: bool) -> None:
    scene = Scene(secrets=[token_secret()])
    answer = failing(after=0, outcome=outcome, to=Delete, otherwise=scene.answer)
    assert len(scene.sync_account(answer=answer, raises=CommandError if fails else None).of(Delete)) == 1


# Secrets.


def test_secret_is_deleted_after_a_live_read_of_its_account() -> None:
    scene = Scene(secrets=[token_secret(data=COMPLETE)])
    driven = scene.secret()
    assert requests(driven) == [("Get", "serviceaccounts default/default"), ("Delete", "secrets default/token")]
    [delete] = driven.of(Delete)
    assert (delete.uid, delete.depends_on) == ("uid-of-token", (SECRETS.id,))


def test_secret_of_account_that_is_not_in_the_table_yet_is_kept() -> None:
    driven = Scene(secrets=[token_secret(data=COMPLETE)], live=[account(uid="uid-of-default")]).secret()
    assert requests(driven) == [("Get", "serviceaccounts default/default")]


def test_another_account_of_the_name_does_not() -> None:
    scene = Scene([account(uid="another")], [token_secret(data=COMPLETE)], live=[account(uid="another")])
    assert requests(scene.secret())[-1] == ("Delete", "secrets default/token")


@pytest.mark.parametrize(
    ("data", "written"),
    [
        (COMPLETE, None),
        (None, {"token": "token of system:serviceaccount:default:default"}),
        ({**COMPLETE, "token": ""}, {"token": "token of system:serviceaccount:default:default"}),
        ({**COMPLETE, "ca.crt": ""}, {"ca.crt": "CA Data"}),
        ({**COMPLETE, "ca.crt": "*" + COMPLETE["ca.crt"]}, {"ca.crt": "CA Data"}),
        ({**COMPLETE, "namespace": ""}, {"namespace": "default"}),
        ({**COMPLETE, "namespace": "custom"}, None),
    ],
)
def test_a_secret_is_given_what_it_lacks(data: dict[str, str] | None, written: dict[str, str] | None) -> None:
    scene = Scene([account()], [token_secret(data=data)])
    driven = scene.secret()
    if written is None:
        assert driven.commands == []
        return
    assert requests(driven) == [("Get", "secrets default/token"), ("Update", "secrets default/token")]
    before = {key: value for key, value in (data or {}).items() if value}
    assert data_of(driven) == {**COMPLETE, **before, **written, "token": written.get("token", "ABC")}
    assert scene.secret().commands == [], "although the watch is late"


def test_account_is_written_to_the_annotations_of_the_secret() -> None:
    driven = Scene([account()], [token_secret(uid=None)]).secret(TOKEN_KEY._replace(account_uid=""))
    [update] = driven.of(Update)
    annotations = decode_object(update.body)["metadata"]["annotations"]
    assert annotations == {ACCOUNT_NAME: "default", ACCOUNT_UID: "uid-of-default"}


def test_without_an_authority_none_is_written() -> None:
    scene = Scene([account()], [token_secret(data={**COMPLETE, "ca.crt": "theirs"})])
    scene.tokens = Tokens(tables=scene.bench.tables, sign=lambda _said: "t", authority=b"", log=quiet_log())
    assert scene.secret().commands == []


def test_a_secret_that_has_changed_waits_for_its_event() -> None:
    scene = Scene([account()], [token_secret()])

    def answer(command: Command) -> Outcome:
        if isinstance(command, Get):
            return Done(encode_object(token_secret(uid="uid-of-default", resourceVersion="999")))
        return scene.answer(command)

    assert requests(scene.secret(answer=answer)) == [("Get", "secrets default/token")]


@pytest.mark.parametrize(
    ("to", "outcome", "fails"),
    [
        (Get, NotFound("x"), False),
        (Get, ServerFailure("x"), True),
        (Update, NotFound("x"), False),
        (Update, Conflict("x"), True),
        (Update, ServerFailure("x"), True),
    ],
)
def test_concurrently_deleted_secret_is_ignored(to: type[Command], outcome: Outcome, fails: bool) -> None:
    scene = Scene([account()], [token_secret()])
    answer = failing(after=0, outcome=outcome, to=to, otherwise=scene.answer)
    assert isinstance(scene.secret(answer=answer, raises=CommandError if fails else None).commands[-1], to)


def test_malformed_data_is_replaced() -> None:
    spoiled = token_secret(data=COMPLETE)
    spoiled["data"]["token"] = "!"
    assert data_of(Scene([account()], [spoiled]).secret())["token"].startswith("token of")


# Deleted Secrets.


@pytest.mark.parametrize(
    ("accounts", "expected"),
    [
        ([account(secrets=("token", "other"))], ["Get", "Update"]),
        ([account(secrets=("other",))], ["Get"]),
        ([account()], ["Get"]),
        ([account(uid="another", secrets=("token",))], []),
        ([], []),
    ],
)
def test_reference_to_deleted_secret_is_removed(accounts: list[Object], expected: list[str]) -> None:
    driven = Scene(accounts).secret()
    assert [type(command).__name__ for command in driven.commands] == expected
    for update in driven.of(Update):
        assert decode_object(update.body)["secrets"] == [{"name": "other"}]


def test_reference_to_replaced_secret_is_removed() -> None:
    driven = Scene([account(secrets=("token",))], [token_secret(metadata_uid="x")]).secret(
        TOKEN_KEY._replace(uid="one before")
    )
    assert [type(command).__name__ for command in driven.commands] == ["Get", "Update"]


# Keys that a change enqueues.


def change(obj: Object, type_: str, previous: Object | None = None) -> Change:
    key = make_key("default", name_of(obj))
    before = encode_object(previous) if previous is not None else b""
    return Change(type=type_, key=key, raw=encode_object(obj), controller=None, previous=before)


def test_secret_without_account_is_not_enqueued() -> None:
    tables = Scene().bench.tables
    assert list(secret_of_account(change(token_secret(of=None, uid=None), EventType.ADDED), tables)) == []
    [key] = secret_of_account(change(token_secret(metadata={}, uid=None), EventType.ADDED), tables)
    assert str(key) == "default/token  of default"


def test_deleted_or_replaced_account_is_enqueued() -> None:
    tables = Scene().bench.tables
    first, other = account(uid="one"), account(uid="other")
    assert [key.uid for key in deleted_account(change(first, EventType.DELETED), tables)] == ["one"]
    assert [key.uid for key in deleted_account(change(other, EventType.MODIFIED, first), tables)] == ["one"]
    assert list(deleted_account(change(first, EventType.ADDED), tables)) == []


def test_token_contains_the_legacy_claims() -> None:
    whose = account("builder", uid="u1")
    assert uid_of(whose) == "u1"
    assert claims(whose, token_secret("builder-token")) == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "builder-token",
        "kubernetes.io/serviceaccount/service-account.name": "builder",
        "kubernetes.io/serviceaccount/service-account.uid": "u1",
        "sub": "system:serviceaccount:default:builder",
    }


# Lasting errors.


def with_errors(status: int) -> SimulatedCluster:
    """Return a cluster whose API server rejects all requests for the Secret for a minute."""
    broken = Fault(
        kind=FaultKind.COMMAND_ANSWERED, start=5.0, until=65.0, status=status, process="manager", object="default/token"
    )
    cluster = SimulatedCluster(log=quiet_log(), faults=[broken])
    cluster.create(SERVICE_ACCOUNTS, account())
    options = Options().with_group(ServiceAccountOptions(private_key_file=key_file()))
    cluster.manager(controllers=(SPEC,), options=options)
    return cluster


def make_token(cluster: SimulatedCluster) -> None:
    cluster.create(SECRETS, token_secret(uid=None))


def is_complete(cluster: SimulatedCluster) -> bool:
    secret = cluster.get(SECRETS, "default/token")
    return secret is not None and "token" in secret.get("data", {})


@pytest.mark.parametrize("status", [410, 503])
def test_secret_is_completed_after_a_minute_of_errors(status: int) -> None:
    """The Secret stayed incomplete until its next event (seeds 15010148 and 15020057 of all controllers)."""
    cluster = with_errors(status)
    cluster.run_for(6.0)
    make_token(cluster)
    assert not cluster.run_until(lambda: is_complete(cluster), within=50.0)
    assert cluster.run_until(lambda: is_complete(cluster), within=120.0)


def test_token_of_deleted_account_is_deleted_after_a_minute_of_errors() -> None:
    cluster = with_errors(503)
    make_token(cluster)
    assert cluster.run_until(lambda: is_complete(cluster), within=4.0)
    cluster.run_for(6.0)
    cluster.delete(SERVICE_ACCOUNTS, "default/default")
    assert not cluster.run_until(lambda: cluster.get(SECRETS, "default/token") is None, within=50.0)
    assert cluster.run_until(lambda: cluster.get(SECRETS, "default/token") is None, within=120.0)
