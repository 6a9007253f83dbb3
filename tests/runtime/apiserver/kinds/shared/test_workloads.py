"""ReplicationControllers, ReplicaSets, Deployments: defaults, checks, scale."""

from __future__ import annotations

import pytest

from runtime.apiserver.schema.patches import apply_merge_patch


def test_a_replication_controller_selects_what_its_template_labels(api):
    created = api.create("replicationcontrollers", {"metadata": {"name": "rc"}, "spec": {"template": api.template()}})
    assert created.status == 201
    assert created.obj["spec"]["selector"] == {"app": "web"}
    assert created.meta["labels"] == {"app": "web"}
    assert created.obj["spec"]["replicas"] == 1


def test_a_deployment_gets_upstreams_defaults(api):
    spec = api.create("deployments", api.replicaset()).obj["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "tolerations" not in spec["template"]["spec"]  # only a pod gets those


def test_a_job_finds_its_pods_by_its_uid(api):
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**api.pod()["spec"], "restartPolicy": "Never"}}}}
    created = api.create("jobs", job)
    uid = created.meta["uid"]
    spec = created.obj["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)


UNMATCHED = 'Invalid value: {"app":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    "change,causes",
    [
        ({"replicas": -1}, {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}),
        ({"minReadySeconds": -1}, {"spec.minReadySeconds": "Invalid value: -1: must be greater than or equal to 0"}),
        ({"selector": None}, {"spec.selector": "Required value"}),
        ({"selector": {}}, {"spec.selector": "Invalid value: {}: empty selector is invalid for deployment"}),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
            {
                "spec.selector.matchExpressions[0].operator": 'Invalid value: "Near": not a valid selector operator',
                "spec.selector": (
                    'Invalid value: {"matchExpressions":[{"key":"app","operator":"Near"}]}: invalid label selector'
                ),
            },
        ),
        ({"template": None}, {"spec.template.spec.containers": "Required value"}),
        ({"template": {"metadata": {"labels": {"app": "b"}}}}, {"spec.template.metadata.labels": UNMATCHED}),
        (
            {"template": {"spec": {"restartPolicy": "Never"}}},
            {"spec.template.spec.restartPolicy": 'Unsupported value: "Never": supported values: "Always"'},
        ),
        (
            {"template": {"spec": {"activeDeadlineSeconds": 5}}},
            {
                "spec.template.spec.activeDeadlineSeconds": (
                    "Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"
                )
            },
        ),
    ],
)
@pytest.mark.parametrize("resource", ["replicasets", "deployments"])
def test_an_invalid_set_is_refused_with_its_causes(api, resource, change, causes):
    body = apply_merge_patch(api.replicaset(), {"spec": change})
    if "selector" in change:
        body["spec"]["selector"] = change["selector"]
    refused = api.create(resource, body)
    assert refused.status == 422
    assert refused.causes.items() >= causes.items()


@pytest.mark.parametrize(
    "strategy,field,text",
    [
        (
            {"type": "Recreate", "rollingUpdate": {}},
            "spec.strategy.rollingUpdate",
            "Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            'Invalid value: "0%": may not be 0 when `maxSurge` is 0',
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "101%"}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            'Invalid value: "101%": must not be greater than 100%',
        ),
        (
            {"rollingUpdate": {"maxSurge": "x"}},
            "spec.strategy.rollingUpdate.maxSurge",
            (
                "Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ),
        ),
        ({"type": "Blue"}, "spec.strategy", 'supported values: "Recreate", "RollingUpdate"'),
    ],
)
def test_a_deployments_strategy_is_checked(api, strategy, field, text):
    refused = api.create("deployments", api.replicaset(strategy=strategy))
    assert refused.status == 422
    assert text in refused.causes[field]


def test_a_deployment_must_have_time_to_progress(api):
    refused = api.create("deployments", api.replicaset(progressDeadlineSeconds=5, minReadySeconds=5))
    assert refused.causes == {"spec.progressDeadlineSeconds": "Invalid value: 5: must be greater than minReadySeconds"}


def test_a_status_that_cannot_be_is_refused(api):
    api.create("replicasets", api.replicaset())
    refused = api.patch("replicasets", "web", {"status": {"replicas": 1, "readyReplicas": 2}}, subresource="status")
    assert refused.causes == {"status.readyReplicas": "Invalid value: 2: cannot be greater than status.replicas"}
    api.create("deployments", api.replicaset())
    api.patch("deployments", "web", {"status": {"collisionCount": 2}}, subresource="status")
    refused = api.patch("deployments", "web", {"status": {"collisionCount": 1}}, subresource="status")
    assert refused.causes == {"status.collisionCount": "Invalid value: 1: cannot be decremented"}


@pytest.mark.parametrize("resource", ["replicationcontrollers", "replicasets", "deployments"])
def test_scale_shows_and_sets_the_replicas(api, resource):
    body = api.replicaset(replicas=2)
    if resource == "replicationcontrollers":
        body["spec"]["selector"] = {"app": "web"}
    created = api.create(resource, body)

    scale = api.get(resource, "web", "scale").obj
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == created.meta["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}

    scale["spec"]["replicas"] = 5
    assert api.put(resource, scale, "scale").obj["spec"] == {"replicas": 5}
    stored = api.get(resource, "web")
    assert (stored.obj["spec"]["replicas"], stored.meta["generation"]) == (5, 2)

    too_many = api.patch(resource, "web", {"spec": {"replicas": 2**31}}, subresource="scale")
    assert too_many.status == 422
    assert "into Go struct field ScaleSpec.spec.replicas of type int32" in too_many.message

    stale = api.put(resource, scale, "scale")
    assert (stale.status, stale.reason) == (409, "Conflict")

    assert api.patch(resource, "web", {"spec": {"replicas": 0}}, subresource="scale").obj["spec"] == {}
    assert api.get(resource, "web").obj["spec"]["replicas"] == 0
    negative = api.patch(resource, "web", {"spec": {"replicas": -1}}, subresource="scale")
    assert negative.causes == {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}


def test_what_cannot_be_scaled_has_no_scale(api):
    api.create("pods", api.pod())
    assert api.get("pods", "web", "scale").status == 404
