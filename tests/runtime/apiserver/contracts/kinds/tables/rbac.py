"""Objects of rbac.authorization.k8s.io."""

from __future__ import annotations

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/rbac.authorization.k8s.io/v1"
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}

RULES: dict[str, object] = {
    "no rules": {"rules": None},
    "no verbs": {"rules": [{**RULE, "verbs": []}]},
    "no groups": {"rules": [{"resources": ["pods"], "verbs": ["get"]}]},
    "no resources": {"rules": [{"apiGroups": [""], "verbs": ["get"]}]},
    "a path": {"rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]},
    "a path and a resource": {"rules": [{**RULE, "nonResourceURLs": ["/healthz"]}]},
    "names": {"rules": [{**RULE, "resourceNames": ["a"]}]},
}
BINDINGS: dict[str, object] = {
    "no subjects": {"subjects": None},
    "a user": {"subjects": [{"kind": "User", "name": "a"}]},
    "a group": {"subjects": [{"kind": "Group", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}]},
    "no name": {"subjects": [{"kind": "User"}]},
    "an unknown kind": {"subjects": [{"kind": "Dog", "name": "a"}]},
    "a user of another group": {"subjects": [{"kind": "User", "name": "a", "apiGroup": "a.b"}]},
    "an account without a namespace": {"subjects": [{"kind": "ServiceAccount", "name": "a"}]},
    "an odd account": {"subjects": [{"kind": "ServiceAccount", "name": "A_", "namespace": "b", "apiGroup": "c"}]},
    "no role": {"roleRef": None},
    "a role of another group": {"roleRef": {"apiGroup": "a.b"}},
    "a role of no group": {"roleRef": {"apiGroup": None}},
    "an unknown kind of role": {"roleRef": {"kind": "Dog"}},
    "a role without a name": {"roleRef": {"name": None}},
    "an odd role": {"roleRef": {"name": "a/b"}},
}
REBINDINGS: dict[str, object] = {
    "another role": {"roleRef": {"name": "edit"}},
    "a role of another kind": {"roleRef": {"kind": "Role"}},
    "another subject": {"subjects": [{"kind": "User", "name": "b"}]},
    "no subjects": {"subjects": None},
}

TABLE: Table = {
    "roles": Kind(
        f"{ROOT}/namespaces/contract/roles",
        {"metadata": {"name": "r"}, "rules": [RULE]},
        creates={**RULES, "a bad name": {"metadata": {"name": "a/b"}}, "a colon": {"metadata": {"name": "system:a"}}},
        updates={"no verbs": {"rules": [{**RULE, "verbs": []}]}, "others": {"rules": [{**RULE, "verbs": ["list"]}]}},
    ),
    "clusterroles": Kind(
        f"{ROOT}/clusterroles",
        {"metadata": {"name": "r"}, "rules": [RULE]},
        creates={
            **RULES,
            "aggregation": {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
            "aggregation of nothing": {"aggregationRule": {}},
            "odd aggregation": {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"-": "b c"}}]}},
        },
        updates={"no verbs": {"rules": [{**RULE, "verbs": []}]}},
    ),
    "rolebindings": Kind(
        f"{ROOT}/namespaces/contract/rolebindings",
        {"metadata": {"name": "b"}, "roleRef": REF, "subjects": [{"kind": "User", "name": "a"}]},
        creates=BINDINGS,
        updates=REBINDINGS,
    ),
    "clusterrolebindings": Kind(
        f"{ROOT}/clusterrolebindings",
        {"metadata": {"name": "b"}, "roleRef": REF, "subjects": [{"kind": "User", "name": "a"}]},
        creates={**BINDINGS, "a role of a namespace": {"roleRef": {"kind": "Role"}}},
        updates=REBINDINGS,
    ),
}
