"""Objects of admissionregistration.k8s.io."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: dict[str, Any] = {
    "name": "a.example.com",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://a.b/c"},
    "rules": [RULE],
}
SERVICE = {"name": "s", "namespace": "n"}


def _hook(**fields: Any) -> dict[str, Any]:
    return {"webhooks": [{name: value for name, value in {**HOOK, **fields}.items() if value is not None}]}


def _rule(**fields: Any) -> dict[str, Any]:
    return _hook(rules=[{name: value for name, value in {**RULE, **fields}.items() if value is not None}])


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


HOOKS: dict[str, Any] = {
    "no hooks": {"webhooks": None},
    "no name": _hook(name=None),
    "a short name": _hook(name="a"),
    "an odd name": _hook(name="A_.b.c"),
    "a name twice": {"webhooks": [HOOK, HOOK]},
    "no review versions": _hook(admissionReviewVersions=None),
    "unknown review versions": _hook(admissionReviewVersions=["v9"]),
    "review versions twice": _hook(admissionReviewVersions=["v1", "v1", "V_"]),
    "no side effects": _hook(sideEffects=None),
    "some side effects": _hook(sideEffects="Some"),
    "unknown side effects": _hook(sideEffects="Odd"),
    "no client": _hook(clientConfig=None),
    "a client of nothing": _hook(clientConfig={}),
    "two clients": _hook(clientConfig={"url": "https://a.b/c", "service": SERVICE}),
    "a service": _hook(clientConfig={"service": SERVICE}),
    "a service of nothing": _hook(clientConfig={"service": {"name": "", "namespace": "", "port": 70_000, "path": "a"}}),
    "an odd path": _hook(clientConfig={"service": {**SERVICE, "path": "/a//B_"}}),
    "http": _hook(clientConfig={"url": "http://a.b/c"}),
    "an odd url": _hook(clientConfig={"url": "https://u:p@a.b/c?d=e#f"}),
    "no url": _hook(clientConfig={"url": ""}),
    "a timeout": _hook(timeoutSeconds=31),
    "no timeout": _hook(timeoutSeconds=0),
    "an unknown failure policy": _hook(failurePolicy="Odd"),
    "an unknown match policy": _hook(matchPolicy="Odd"),
    "an odd selector": _hook(
        namespaceSelector={"matchLabels": {"-": "a b"}}, objectSelector={"matchLabels": {"-": "a"}}
    ),
    "no rules": _hook(rules=None),
    "no operations": _rule(operations=None),
    "an unknown operation": _rule(operations=["SING"]),
    "all operations and one": _rule(operations=["*", "CREATE"]),
    "no groups": _rule(apiGroups=None),
    "all groups and one": _rule(apiGroups=["*", "a"]),
    "no versions": _rule(apiVersions=None),
    "an empty version": _rule(apiVersions=[""]),
    "all versions and one": _rule(apiVersions=["*", "a"]),
    "no resources": _rule(resources=None),
    "an empty resource": _rule(resources=[""]),
    "all resources and one": _rule(resources=["*", "pods"]),
    "all subresources and one": _rule(resources=["pods/*", "pods/status"]),
    "everything": _rule(resources=["*/*", "pods"]),
    "an unknown scope": _rule(scope="World"),
    "conditions": _hook(matchConditions=[{"name": "a", "expression": "true"}]),
    "odd conditions": _hook(matchConditions=[{"name": "a b", "expression": ""}, {"name": "", "expression": "true"}]),
    "a condition twice": _hook(
        matchConditions=[{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]
    ),
    "a long name": _hook(name=f"a.b.{'c' * 260}"),
}
HOOK_UPDATES: dict[str, Any] = {
    "another": _hook(timeoutSeconds=5),
    "an odd one": _hook(sideEffects="Odd"),
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "no version": {"metadata": {"resourceVersion": None}},
}
VALIDATION = {"expression": "object.metadata.name != 'a'"}
CONSTRAINTS = {"resourceRules": [RULE]}
POLICIES: dict[str, Any] = {
    "nothing": {"spec": None},
    "no constraints": _spec(matchConstraints=None),
    "no rules": _spec(matchConstraints={"resourceRules": None}),
    "odd constraints": _spec(
        matchConstraints={"matchPolicy": "Odd", "namespaceSelector": {"matchLabels": {"-": "a"}}, "resourceRules": [{}]}
    ),
    "an unknown failure policy": _spec(failurePolicy="Odd"),
    "a kind of parameters": _spec(paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
    "an odd kind of parameters": _spec(paramKind={"apiVersion": "a/b/c", "kind": "K_ k"}),
    "no kind of parameters": _spec(paramKind={}),
    "odd conditions": _spec(matchConditions=[{"name": "a b", "expression": ""}]),
    "a variable": _spec(variables=[{"name": "a", "expression": "1"}]),
    "a variable of an earlier one": _spec(
        variables=[{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.a + 1"}]
    ),
    "a variable of a later one": _spec(
        variables=[{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]
    ),
    "a variable twice": _spec(variables=[{"name": "a", "expression": "1"}, {"name": "a", "expression": "2"}]),
    "a field of a list in a variable": _spec(
        variables=[{"name": "a", "expression": "object.spec.containers"}, {"name": "b", "expression": "variables.a.x"}]
    ),
    "a constant list in a variable": _spec(
        variables=[{"name": "a", "expression": "[1]"}, {"name": "b", "expression": "variables.a == 'x'"}]
    ),
    "65 conditions": _spec(matchConditions=[{"name": f"c{i}", "expression": "true"} for i in range(65)]),
    "a condition of another type than boolean": _spec(matchConditions=[{"name": "a", "expression": "'a'"}]),
    "a condition with a variable": _spec(
        variables=[{"name": "a", "expression": "true"}], matchConditions=[{"name": "c", "expression": "variables.a"}]
    ),
    "parameters without a kind": _spec(matchConditions=[{"name": "c", "expression": "params.a"}]),
    "excluded rules": _spec(
        matchConstraints={"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["a", ""]}]}
    ),
    "names of objects": _spec(matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["a", "a"]}]}),
    "odd variables": _spec(variables=[{"name": "a b", "expression": ""}, {"name": "", "expression": "1"}]),
}
BINDINGS: dict[str, Any] = {
    "nothing": {"spec": None},
    "no policy": _spec(policyName=None),
    "an odd policy": _spec(policyName="P_"),
    "a parameter": _spec(paramRef={"name": "a", "parameterNotFoundAction": "Deny"}),
    "an odd parameter": _spec(paramRef={"name": "a/b", "parameterNotFoundAction": "Odd"}),
    "a parameter without an action": _spec(paramRef={"name": "a"}),
    "a parameter twice over": _spec(
        paramRef={"name": "a", "selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}
    ),
    "no parameter": _spec(paramRef={}),
    "resources": _spec(matchResources=CONSTRAINTS),
    "odd resources": _spec(matchResources={"resourceRules": [{}], "matchPolicy": "Odd"}),
}

TABLE: Table = {
    "validatingwebhookconfigurations": Kind(
        f"{ROOT}/validatingwebhookconfigurations",
        {"metadata": {"name": "v"}, "webhooks": [HOOK]},
        creates=HOOKS,
        updates=HOOK_UPDATES,
    ),
    "mutatingwebhookconfigurations": Kind(
        f"{ROOT}/mutatingwebhookconfigurations",
        {"metadata": {"name": "m"}, "webhooks": [HOOK]},
        creates={
            **HOOKS,
            "invoked again": _hook(reinvocationPolicy="IfNeeded"),
            "an unknown policy of reinvocation": _hook(reinvocationPolicy="Odd"),
        },
        updates=HOOK_UPDATES,
    ),
    "validatingadmissionpolicies": Kind(
        f"{ROOT}/validatingadmissionpolicies",
        {"metadata": {"name": "v"}, "spec": {"matchConstraints": CONSTRAINTS, "validations": [VALIDATION]}},
        creates={
            **POLICIES,
            "no validations": _spec(validations=None),
            "no expression": _spec(validations=[{"expression": " "}]),
            "an odd expression": _spec(validations=[{"expression": "1 +"}]),
            "a text as result": _spec(validations=[{"expression": "'a'"}]),
            "a reason": _spec(validations=[{**VALIDATION, "reason": "Forbidden", "message": "a"}]),
            "an unknown reason": _spec(validations=[{**VALIDATION, "reason": "Odd"}]),
            "an odd message": _spec(validations=[{**VALIDATION, "message": "a\nb"}]),
            "an odd message expression": _spec(validations=[{**VALIDATION, "messageExpression": "1 +"}]),
            "an annotation": _spec(auditAnnotations=[{"key": "a", "valueExpression": "'b'"}]),
            "a variable in an expression": _spec(
                variables=[{"name": "a", "expression": "object.metadata"}],
                validations=[{"expression": "variables.a.name != 'a'"}],
            ),
            "an unknown variable": _spec(validations=[{"expression": "variables.b"}]),
            "a list as a number": _spec(
                variables=[{"name": "a", "expression": "[1]"}], validations=[{"expression": "variables.a > 1"}]
            ),
            "a struct as a number": _spec(
                variables=[{"name": "a", "expression": "namespaceObject"}],
                validations=[{"expression": "variables.a > 1"}],
            ),
            "an unknown field of a struct": _spec(
                variables=[{"name": "a", "expression": "request"}], validations=[{"expression": "variables.a.x == 1"}]
            ),
            "an unknown field of the request": _spec(validations=[{"expression": "request.x == 1"}]),
            "a message expression that is not a string": _spec(validations=[{**VALIDATION, "messageExpression": "1"}]),
            "a message expression": _spec(
                validations=[{**VALIDATION, "messageExpression": "'a' + object.metadata.name"}]
            ),
            "an expression with parameters": _spec(
                paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
                validations=[{"expression": "params.data.a == 'b'"}],
            ),
            "an expression without parameters": _spec(validations=[{"expression": "params.data.a == 'b'"}]),
            "the authorizer": _spec(
                validations=[{"expression": "authorizer.group('').resource('pods').check('get').allowed()"}]
            ),
            "an odd authorizer": _spec(validations=[{"expression": "authorizer.allowed()"}]),
            "a number as an annotation": _spec(auditAnnotations=[{"key": "a", "valueExpression": "1"}]),
            "21 annotations": _spec(auditAnnotations=[{"key": f"a{i}", "valueExpression": "'b'"} for i in range(21)]),
            "an annotation twice": _spec(auditAnnotations=[{"key": "a", "valueExpression": "'b'"}] * 2),
            "a long key": _spec(auditAnnotations=[{"key": "a" * 64, "valueExpression": "'b'"}]),
            "a long annotation": _spec(auditAnnotations=[{"key": "a", "valueExpression": f"'{'b' * 5120}'"}]),
            "odd annotations": _spec(
                auditAnnotations=[{"key": "a b", "valueExpression": ""}, {"key": "", "valueExpression": "'a'"}]
            ),
        },
        updates={
            "another": _spec(failurePolicy="Ignore"),
            "an odd one": _spec(failurePolicy="Odd"),
            "a status": {"status": {"observedGeneration": 5}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
        statuses={
            "checked": {"status": {"observedGeneration": 1, "typeChecking": {}}},
            "an odd condition": {"status": {"conditions": [{"type": "a b", "status": "Perhaps"}]}},
            "warnings": {
                "status": {
                    "observedGeneration": 1,
                    "typeChecking": {"expressionWarnings": [{"fieldRef": "spec.validations[0]", "warning": "w"}]},
                }
            },
            "odd warnings": {
                "status": {
                    "observedGeneration": -1,
                    "typeChecking": {
                        "expressionWarnings": [{"fieldRef": "spec.x[", "warning": ""}, {"fieldRef": "", "warning": "w"}]
                    },
                }
            },
        },
    ),
    "validatingadmissionpolicybindings": Kind(
        f"{ROOT}/validatingadmissionpolicybindings",
        {"metadata": {"name": "v"}, "spec": {"policyName": "v", "validationActions": ["Deny"]}},
        creates={
            **BINDINGS,
            "no actions": _spec(validationActions=None),
            "an unknown action": _spec(validationActions=["Odd"]),
            "an action twice": _spec(validationActions=["Deny", "Deny"]),
            "deny and warn": _spec(validationActions=["Deny", "Warn"]),
        },
        updates={"another policy": _spec(policyName="w"), "an odd policy": _spec(policyName="W_")},
    ),
    "mutatingadmissionpolicies": Kind(
        f"{ROOT}/mutatingadmissionpolicies",
        {
            "metadata": {"name": "m"},
            "spec": {
                "matchConstraints": CONSTRAINTS,
                "reinvocationPolicy": "Never",
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"},
                    }
                ],
            },
        },
        creates={
            **POLICIES,
            "no mutations": _spec(mutations=None),
            "a mutation of nothing": _spec(mutations=[{}]),
            "an unknown type of patch": _spec(mutations=[{"patchType": "Odd"}]),
            "a patch without an expression": _spec(mutations=[{"patchType": "JSONPatch"}]),
            "no policy of reinvocation": _spec(reinvocationPolicy=None),
            "an unknown policy of reinvocation": _spec(reinvocationPolicy="Odd"),
        },
        updates={"another": _spec(failurePolicy="Ignore")},
    ),
    "mutatingadmissionpolicybindings": Kind(
        f"{ROOT}/mutatingadmissionpolicybindings",
        {"metadata": {"name": "m"}, "spec": {"policyName": "m"}},
        creates=BINDINGS,
        updates={"another policy": _spec(policyName="w")},
    ),
}
