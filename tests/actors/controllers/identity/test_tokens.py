"""The token controller by hand: upstream's cases.

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
    """accounts, secrets: as the tables show them. live: accounts that only the server has."""

    def __init__(
        self,
        accounts: list[Object] | None = None,
        secrets: list[Object] | None = None,
        live: list[Object] | None = None,
    ) -> None:
        self.bench = Bench({SERVICE_ACCOUNTS: accounts or [], SECRETS: secrets or []}, indexes=(BY_ACCOUNT,))
        self.live = {make_key("default", name_of(one)): one for one in live or ()}
        self.tokens = Tokens(
            tables=self.bench.tables, sign=lambda said: f"token of {said['sub']}", authority=b"CA Data", log=quiet_log()
        )

    def answer(self, command: Command) -> Outcome:
        if isinstance(command, Get) and command.resource == SERVICE_ACCOUNTS.id and command.key in self.live:
            live = self.live[command.key]
            return Done(encode_object({**live, "metadata": {**live["metadata"], "resourceVersion": "1"}}))
        return self.bench.accept(command)

    def secret(self, key: SecretKey = TOKEN_KEY, answer: Answer | None = None, **more: Any) -> Driven:
        running = self.tokens.reconcile_secret(key)
        return drive_steps(running, answer or self.answer, tables=self.bench.tables, **more)

    def gone(self, name: str = "default", uid: str = "uid-of-default", **more: Any) -> Driven:
        running = self.tokens.reconcile_account(AccountKey(f"default/{name}", uid))
        return drive_steps(running, more.pop("answer", self.answer), tables=self.bench.tables, **more)


def asked(driven: Driven) -> list[tuple[str, str]]:
    return [(type(one).__name__, f"{one.resource.rpartition('/')[2]} {one.key}") for one in driven.commands]


def data_of(driven: Driven) -> dict[str, str]:
    [update] = driven.of(Update)
    data = decode_object(update.body)["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


# Accounts that go.


def test_the_tokens_of_an_account_go_with_it() -> None:
    others = [
        token_secret("of-another", of="other", uid="uid-of-other"),
        token_secret("of-one-before", uid="uid-of-one-before"),
        token_secret("elsewhere", namespace="elsewhere"),
    ]
    scene = Scene(secrets=[token_secret("filled"), token_secret("new", uid=None), *others])
    driven = scene.gone()
    assert sorted(one.key for one in driven.of(Delete)) == ["default/filled", "default/new"]
    assert {one.uid for one in driven.of(Delete)} == {"uid-of-filled", "uid-of-new"}
    assert [len(batch) for batch in driven.batches] == [1, 2], "a look at the account, and all deletions at once"
    assert scene.gone().commands == [], "though the watch is late"


@pytest.mark.parametrize("shown", [False, True])
def test_a_secret_that_names_no_uid_is_left_to_another_account_of_the_name(*, shown: bool) -> None:
    """It was deleted, where the other account was not shown yet (seed 15000476 of all controllers together)."""
    other = [account(uid="another")]
    secrets = [token_secret("old"), token_secret("new", uid=None)]
    driven = Scene(other if shown else [], secrets, live=other).gone()
    assert [one.key for one in driven.of(Delete)] == ["default/old"]


def test_an_account_that_is_there_keeps_its_tokens() -> None:
    assert Scene([account()], [token_secret()]).gone().commands == []


def test_an_account_that_another_has_taken_the_place_of_is_gone() -> None:
    driven = Scene([account(uid="another")], [token_secret("old"), token_secret("new", uid="another")]).gone()
    assert [one.key for one in driven.of(Delete)] == ["default/old"]


@pytest.mark.parametrize(("outcome", "fails"), [(NotFound("x"), False), (Conflict("x"), True), (ServerFailure(), True)])
def test_a_token_that_is_gone_already_is_no_failure(outcome: Outcome, fails: bool) -> None:
    scene = Scene(secrets=[token_secret()])
    answer = failing(after=0, outcome=outcome, to=Delete, otherwise=scene.answer)
    assert len(scene.gone(answer=answer, raises=CommandError if fails else None).of(Delete)) == 1


# Secrets.


def test_a_secret_without_its_account_is_deleted_after_a_look_at_the_server() -> None:
    scene = Scene(secrets=[token_secret(data=COMPLETE)])
    driven = scene.secret()
    assert asked(driven) == [("Get", "serviceaccounts default/default"), ("Delete", "secrets default/token")]
    [delete] = driven.of(Delete)
    assert (delete.uid, delete.depends_on) == ("uid-of-token", (SECRETS.id,))


def test_an_account_that_the_table_does_not_show_yet_keeps_it() -> None:
    driven = Scene(secrets=[token_secret(data=COMPLETE)], live=[account(uid="uid-of-default")]).secret()
    assert asked(driven) == [("Get", "serviceaccounts default/default")]


def test_another_account_of_the_name_does_not() -> None:
    scene = Scene([account(uid="another")], [token_secret(data=COMPLETE)], live=[account(uid="another")])
    assert asked(scene.secret())[-1] == ("Delete", "secrets default/token")


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
    assert asked(driven) == [("Get", "secrets default/token"), ("Update", "secrets default/token")]
    before = {key: value for key, value in (data or {}).items() if value}
    assert data_of(driven) == {**COMPLETE, **before, **written, "token": written.get("token", "ABC")}
    assert scene.secret().commands == [], "though the watch is late"


def test_a_secret_is_told_whose_it_is() -> None:
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

    assert asked(scene.secret(answer=answer)) == [("Get", "secrets default/token")]


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
def test_a_secret_that_is_gone_meanwhile_is_no_failure(to: type[Command], outcome: Outcome, fails: bool) -> None:
    scene = Scene([account()], [token_secret()])
    answer = failing(after=0, outcome=outcome, to=to, otherwise=scene.answer)
    assert isinstance(scene.secret(answer=answer, raises=CommandError if fails else None).commands[-1], to)


def test_malformed_data_is_written_anew() -> None:
    spoiled = token_secret(data=COMPLETE)
    spoiled["data"]["token"] = "!"
    assert data_of(Scene([account()], [spoiled]).secret())["token"].startswith("token of")


# Secrets that go.


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
def test_an_account_names_a_secret_that_is_gone_no_more(accounts: list[Object], expected: list[str]) -> None:
    driven = Scene(accounts).secret()
    assert [type(one).__name__ for one in driven.commands] == expected
    for update in driven.of(Update):
        assert decode_object(update.body)["secrets"] == [{"name": "other"}]


def test_a_secret_that_another_has_taken_the_place_of_is_gone() -> None:
    driven = Scene([account(secrets=("token",))], [token_secret(metadata_uid="x")]).secret(
        TOKEN_KEY._replace(uid="one before")
    )
    assert [type(one).__name__ for one in driven.commands] == ["Get", "Update"]


# Which keys a change concerns.


def change(obj: Object, type_: str, previous: Object | None = None) -> Change:
    key = make_key("default", name_of(obj))
    before = encode_object(previous) if previous is not None else b""
    return Change(type=type_, key=key, raw=encode_object(obj), controller=None, previous=before)


def test_a_secret_without_an_account_concerns_nobody() -> None:
    tables = Scene().bench.tables
    assert list(secret_of_account(change(token_secret(of=None, uid=None), EventType.ADDED), tables)) == []
    [key] = secret_of_account(change(token_secret(metadata={}, uid=None), EventType.ADDED), tables)
    assert str(key) == "default/token  of default"


def test_the_account_that_is_gone_is_the_one_before() -> None:
    tables = Scene().bench.tables
    one, other = account(uid="one"), account(uid="other")
    assert [key.uid for key in deleted_account(change(one, EventType.DELETED), tables)] == ["one"]
    assert [key.uid for key in deleted_account(change(other, EventType.MODIFIED, one), tables)] == ["one"]
    assert list(deleted_account(change(one, EventType.ADDED), tables)) == []


def test_what_a_token_says() -> None:
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


# Errors that last.


def with_errors(status: int) -> SimulatedCluster:
    """A minute long the server answers with an error what is asked about the Secret."""
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


def is_filled(cluster: SimulatedCluster) -> bool:
    secret = cluster.get(SECRETS, "default/token")
    return secret is not None and "token" in secret.get("data", {})


@pytest.mark.parametrize("status", [410, 503])
def test_a_secret_is_filled_after_errors_that_last(status: int) -> None:
    """It waited for its next event, for ever (seeds 15010148 and 15020057 of all controllers together)."""
    cluster = with_errors(status)
    cluster.run_for(6.0)
    make_token(cluster)
    assert not cluster.run_until(lambda: is_filled(cluster), within=50.0)
    assert cluster.run_until(lambda: is_filled(cluster), within=120.0)


def test_the_token_of_an_account_that_is_gone_goes_after_errors_that_last() -> None:
    cluster = with_errors(503)
    make_token(cluster)
    assert cluster.run_until(lambda: is_filled(cluster), within=4.0)
    cluster.run_for(6.0)
    cluster.delete(SERVICE_ACCOUNTS, "default/default")
    assert not cluster.run_until(lambda: cluster.get(SECRETS, "default/token") is None, within=50.0)
    assert cluster.run_until(lambda: cluster.get(SECRETS, "default/token") is None, within=120.0)
