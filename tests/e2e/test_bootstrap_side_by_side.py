"""Bootstrap tokens and aggregated roles: the real kube-controller-manager and ours, one after the other on one
kube-apiserver. What is seen on the way must be the same.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e import aggregated_roles
from tests.e2e.aggregated_roles import GETS, aggregate, rules
from tests.e2e.bootstrap_tokens import Tokens, join_and_leave
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import CONTROLLERS, managing, stays, until
from tests.e2e.real_server import RealServer, real_manager

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

OF_USERS = ("admin", "edit", "view")
OF_TOKENS, OF_ROLES = ("bootstrapsigner", "tokencleaner"), ("clusterrole-aggregation",)


def theirs_of(server: RealServer, controllers: tuple[str, ...]) -> Any:
    return real_manager(server, f"--controllers={','.join((*CONTROLLERS, *controllers))}")


def ours(server: RealServer, controllers: tuple[str, ...]) -> Any:
    named = f"--controllers={','.join((*CONTROLLERS, *controllers))}"
    flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", named)
    return managing(server.directory / "bootstrap.log", *flags)


def test_the_same_tokens_sign_and_expire(real: RealServer) -> None:
    api = Api(real.kubeconfig)
    with theirs_of(real, OF_TOKENS):
        theirs = join_and_leave(api)
    Tokens(api).clear()
    with ours(real, OF_TOKENS):
        assert join_and_leave(api) == theirs
    Tokens(api).clear()


def stale(kubectl: Kubectl) -> None:
    """It selects nothing, and has rules that a user wrote."""
    meta, nothing = {"name": "stale"}, {"clusterRoleSelectors": [{"matchLabels": {"example.com/no": "one"}}]}
    version = "rbac.authorization.k8s.io/v1"
    whole = {
        "apiVersion": version,
        "kind": "ClusterRole",
        "metadata": meta,
        "aggregationRule": nothing,
        "rules": [GETS],
    }
    kubectl("create", "-f", "-", given=json.dumps(whole))


def test_the_same_rules_are_aggregated(real: RealServer) -> None:
    kubectl = Kubectl(Api(real.kubeconfig), "default")
    with theirs_of(real, OF_ROLES):
        until(lambda: all(rules(kubectl, name) for name in OF_USERS), "the roles for users have rules")
        theirs = aggregate(kubectl)
        of_users = {name: rules(kubectl, name) for name in OF_USERS}
        # Upstream applies no rules if no role is selected, so the rules of another field manager stay.
        stale(kubectl)
        stays(lambda: rules(kubectl, "stale") == [GETS], "the rules of a user", seconds=3.0)
    aggregated_roles.clear(kubectl)
    for name in OF_USERS:
        kubectl("patch", "clusterrole", name, "--type=merge", "-p", json.dumps({"rules": []}))
    with ours(real, OF_ROLES):
        until(lambda: {name: rules(kubectl, name) for name in OF_USERS} == of_users, "they are the same")
        assert aggregate(kubectl) == theirs
        stale(kubectl)
        until(lambda: rules(kubectl, "stale") == [], "it has no rules of its own")
    aggregated_roles.clear(kubectl)
