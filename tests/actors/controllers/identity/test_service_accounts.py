"""The default service account: upstream's cases, and in a cluster.

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
def test_an_active_namespace_has_the_default_account(
    namespaces: list[Object], accounts: list[Object], created: list[str]
) -> None:
    bench, reconciler = scene(namespaces, accounts)
    driven = drive(reconciler, "default", bench.accept, tables=bench.tables)
    assert created_keys(driven) == created
    assert len(driven.commands) == len(created)
    assert drive(reconciler, "default", bench.accept, tables=bench.tables).commands == [], "though the watch is late"


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
def test_what_is_there_and_what_is_ending_are_no_failures(outcome: Outcome, fails: bool) -> None:
    bench, reconciler = scene([namespace()], [])

    def answer(_command: Command) -> Outcome:
        return outcome

    drive(reconciler, "default", answer, tables=bench.tables, raises=CommandError if fails else None)


def test_accounts_come_with_their_namespaces_and_come_back(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(5.0)

    def where() -> set[str]:
        return {one["metadata"]["namespace"] for one in cluster.list(SERVICE_ACCOUNTS)}

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
    assert [one["metadata"]["name"] for one in cluster.list(SERVICE_ACCOUNTS, "shop")] == ["default"]


def test_it_writes_nothing_once_all_are_there(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(5.0)
    for name in ("default", "kube-system"):
        cluster.merge(NAMESPACES, name, {"metadata": {"labels": {"changed": "yes"}}})
    cluster.run_for(5.0)
    asked = [request for _, who, request in cluster.transport.requests if who == "service-account-controller"]
    assert [request.method for request in asked] == ["POST"] * 4
