"""TaintNodesByCondition: new nodes are tainted as not ready."""

from __future__ import annotations

from kcm.protocols.admission_plugins import ON_BY_DEFAULT
from tests.runtime.apiserver.conftest import Api


def test_new_node_is_tainted_as_not_ready(make_api: type[Api]) -> None:
    api = make_api(plugins=ON_BY_DEFAULT)
    taint, other = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}

    assert api.create("nodes", {"metadata": {"name": "n"}}).obj["spec"]["taints"] == [taint]
    for given, kept in ([other], [other, taint]), ([taint], [taint]):
        node = {"metadata": {"name": f"n{len(kept)}-{given[0]['key'][0]}"}, "spec": {"taints": given}}
        assert api.create("nodes", node).obj["spec"]["taints"] == kept


def test_nodes_are_not_tainted_without_the_controller(api: Api) -> None:
    assert "taints" not in api.create("nodes", {"metadata": {"name": "n"}}).obj["spec"]
