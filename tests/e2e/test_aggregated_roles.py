"""Aggregated ClusterRoles with kubectl: on our cluster, and on a real kube-apiserver, where the manager has no more
rights than its bootstrap roles give it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.aggregated_roles import MANAGER, aggregate, clear, rules
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer

pytestmark = pytest.mark.slow

FLAGS = (f"--controllers={','.join((*CONTROLLERS, 'clusterrole-aggregation'))}", "--use-service-account-credentials")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Kubectl]:
    with managing(tmp_path / "kcm.log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0", *FLAGS):
        yield Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default")


@pytest.fixture
def on_real_server(real: RealServer, tmp_path: Path) -> Iterator[Kubectl]:
    flags = (f"--kubeconfig={real.manager_kubeconfig}", "--leader-elect=false", *FLAGS)
    kubectl = Kubectl(Api(real.kubeconfig), "default")
    with managing(tmp_path / "kcm.log", *flags) as manager:
        yield kubectl
    assert "forbidden" not in manager.program.text()
    clear(kubectl)


@pytest.fixture(params=["own", pytest.param("on_real_server", marks=pytest.mark.cluster)])
def kubectl(request: pytest.FixtureRequest) -> Kubectl:
    found: Kubectl = request.getfixturevalue(request.param)
    return found


def test_a_role_has_the_rules_of_those_that_it_selects(kubectl: Kubectl) -> None:
    seen = aggregate(kubectl)
    [owned] = seen["owned"]
    assert (owned["manager"], owned["operation"]) == (MANAGER, "Apply")
    assert owned["fieldsV1"] == {"f:rules": {}}
    assert seen["table"][:3] == ["NAME", "CREATED", "AT"]
    assert ["services", "[]", "[]", "[get]"] in seen["described"]


@pytest.mark.cluster
def test_viewers_may_view_resources_that_are_aggregated_later(on_real_server: Kubectl) -> None:
    """Check this only on the real server: the embedded cluster of this test allows every request."""
    people = on_real_server
    people("create", "clusterrole", "copy", "--verb=get", "--resource=customresourcedefinitions")
    people("create", "clusterrolebinding", "jane-views", "--clusterrole=view", "--user=jane")
    asking = ("auth", "can-i", "get", "customresourcedefinitions", "--as=jane")
    assert people.run(*asking).stdout.strip() == "no"
    people("label", "clusterrole", "copy", "rbac.authorization.k8s.io/aggregate-to-view=true")
    until(lambda: people.run(*asking).stdout.strip() == "yes", "jane may", why=lambda: str(rules(people, "view")))
    added = {"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    for name in ("view", "edit", "admin"):
        until(lambda name=name: added in rules(people, name), f"it has come to {name}")
    people("delete", "clusterrole", "copy")
    until(lambda: people.run(*asking).stdout.strip() == "no", "jane may not any more")
    people("delete", "clusterrolebinding", "jane-views")


PODS: dict[str, Any] = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SELECTORS = "aggregationRule.clusterRoleSelectors"
REFUSALS = {
    "no verbs": ("Role", {"rules": [{**PODS, "verbs": []}]}, ["rules[0].verbs: Required value"]),
    "no groups and resources": (
        "ClusterRole",
        {"rules": [PODS, {"verbs": ["get"]}]},
        [
            "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[1].resources: Required value: resource rules must supply at least one resource",
        ],
    ),
    "urls in a namespace": (
        "Role",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
        ["namespaced rules cannot apply to non-resource URLs"],
    ),
    "urls and resources": (
        "ClusterRole",
        {"rules": [{**PODS, "nonResourceURLs": ["/healthz"]}]},
        ["rules cannot apply to both regular resources and non-resource URLs"],
    ),
    "no selectors": (
        "ClusterRole",
        {"aggregationRule": {}},
        [f"{SELECTORS}: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"],
    ),
    "no operator": (
        "ClusterRole",
        {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}},
        [
            f'{SELECTORS}[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
            f"{SELECTORS}[0]: Invalid value: null: invalid label selector.",
        ],
    ),
}


def test_roles_that_make_no_sense_are_refused_in_the_same_words(kubectl: Kubectl) -> None:
    for case, (kind, fields, words) in REFUSALS.items():
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "bad"}, **fields}
        done = kubectl.run("create", "-f", "-", given=json.dumps(role))
        assert f'The {kind} "bad" is invalid' in done.stderr, case
        for text in words:
            assert text in done.stderr, case
