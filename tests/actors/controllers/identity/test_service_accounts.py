"""Default service account: upstream's cases, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/serviceaccount/serviceaccounts_controller_test.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.identity.service_accounts import SPEC, ServiceAccounts
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, created_keys, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import AlreadyExists, Forbidden, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NAMESPACES, SERVICE_ACCOUNTS
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.controllers.identity.objects import account, namespace

TERMINATING = encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})


def scene(namespaces: list[Object], accounts: list[Object]) -> tuple[Bench, ServiceAccounts]:
    bench = Bench({NAMESPACES: namespaces, SERVICE_ACCOUNTS: accounts})
    return bench, ServiceAccounts(tables=bench.tables, log=quiet_log())


@pytest.mark.parametrize(
    ("namespaces", "accounts", "created"),
    [
        ([namespace()], [], ["default/default"]),
        ([namespace()], [account()], []),
        ([namespace()], [account("other")], ["default/default"]),
        ([namespace()], [account(where="elsewhere")], ["default/default"]),
        ([namespace(phase="Terminating")], [], []),
        ([namespace(phase="")], [], []),
        ([{"metadata": {"name": "default"}}], [], []),
        ([], [], []),
    ],
)
def test_default_account_is_created_in_active_namespace(
    namespaces: list[Object], accounts: list[Object], created: list[str]
) -> None:
    bench, reconciler = scene(namespaces, accounts)
    driven = drive(reconciler, "default", bench.accept, tables=bench.tables)
    assert created_keys(driven) == created
    assert len(driven.commands) == len(created)
    assert drive(reconciler, "default", bench.accept, tables=bench.tables).commands == [], "although the watch is late"


@pytest.mark.parametrize(
    ("outcome", "fails"),
    [
        (AlreadyExists("there"), False),
        (Forbidden("being terminated", status=TERMINATING), False),
        (Forbidden("not allowed"), True),
        (NotFound("no such namespace"), True),
        (ServerFailure("x"), True),
    ],
)
def test_creation_fails_unless_account_exists_or_namespace_is_terminating(outcome: Outcome, fails: bool) -> None:
    bench, reconciler = scene([namespace()], [])

    def answer(_command: Command) -> Outcome:
        return outcome

    drive(reconciler, "default", answer, tables=bench.tables, raises=CommandError if fails else None)


def test_account_is_created_with_its_namespace_and_after_deletion(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(5.0)

    def where() -> set[str]:
        return {account["metadata"]["namespace"] for account in cluster.list(SERVICE_ACCOUNTS)}

    assert where() == {"default", "kube-node-lease", "kube-public", "kube-system"}
    cluster.create(NAMESPACES, {"metadata": {"name": "shop"}})
    cluster.run_for(5.0)
    assert "shop" in where()
    cluster.delete(SERVICE_ACCOUNTS, "shop/default")
    cluster.create(SERVICE_ACCOUNTS, {"metadata": {"name": "other", "namespace": "shop"}})
    cluster.run_for(5.0)
    assert len(cluster.list(SERVICE_ACCOUNTS, "shop")) == 2
    cluster.delete(SERVICE_ACCOUNTS, "shop/other")
    cluster.run_for(5.0)
    assert [account["metadata"]["name"] for account in cluster.list(SERVICE_ACCOUNTS, "shop")] == ["default"]


def test_nothing_is_written_if_all_accounts_exist(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(5.0)
    for name in ("default", "kube-system"):
        cluster.merge(NAMESPACES, name, {"metadata": {"labels": {"changed": "yes"}}})
    cluster.run_for(5.0)
    asked = [request for _, who, request in cluster.transport.requests if who == "service-account-controller"]
    assert [request.method for request in asked] == ["POST"] * 4
