"""POST: what the server decides about a new object, and what it refuses."""

from __future__ import annotations

import pytest

PODS = "/api/v1/namespaces/default/pods"


def test_a_new_object_gets_what_only_the_server_decides(api):
    body = api.pod()
    body["metadata"] |= {"uid": "mine", "generation": 7, "creationTimestamp": "1999-01-01T00:00:00Z"}
    body["status"] = {"phase": "Running"}

    created = api.create("pods", body)

    assert created.status == 201
    meta = created.meta
    assert meta["uid"].startswith("uid-")
    assert meta["namespace"] == "default"
    assert meta["creationTimestamp"] == "2001-09-09T01:46:40Z"
    assert meta["generation"] == 1
    assert meta["resourceVersion"] == str(api.server.revision)
    assert (created.obj["kind"], created.obj["apiVersion"]) == ("Pod", "v1")
    assert created.obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert api.get("pods", "web").obj == created.obj


def test_a_pod_gets_upstreams_defaults(api):
    spec = api.create("pods", api.pod()).obj["spec"]
    assert spec == {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    "image,policy",
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("host:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_only_an_image_that_may_change_is_always_pulled(api, image, policy):
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": image}]))
    assert created.obj["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    "resources,expected",
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_follows_from_the_resources(api, resources, expected):
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert created.obj["status"]["qosClass"] == expected


def test_quantities_are_stored_in_canonical_form(api):
    resources = {"requests": {"cpu": 0.5, "memory": "1024Mi"}}
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert created.obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_a_generated_name_ends_in_five_characters_and_is_drawn_again_when_it_is_taken(api):
    body = api.pod()
    body["metadata"] = {"generateName": "web-"}
    assert api.create("pods", body).meta["name"] == "web-00000"
    api.create("pods", api.pod("web-00001"))
    assert api.create("pods", body).meta["name"] == "web-00002"


def test_a_generated_name_that_is_always_taken_is_a_conflict(api):
    body = api.pod()
    body["metadata"] = {"generateName": "web-"}
    for i in range(9):
        api.create("pods", api.pod(f"web-{i:05d}"))
    refused = api.create("pods", body)
    assert (refused.status, refused.reason) == (409, "AlreadyExists")
    assert refused.message.endswith("already exists, the server was not able to generate a unique name for the object")


def test_a_generated_name_is_cut_to_63_characters(api):
    body = api.pod()
    body["metadata"] = {"generateName": "x" * 100}
    assert api.create("pods", body).meta["name"] == "x" * 58 + "00000"


def test_an_object_of_that_name_exists(api):
    api.create("pods", api.pod())
    refused = api.create("pods", api.pod())
    assert (refused.status, refused.reason) == (409, "AlreadyExists")
    assert refused.message == 'pods "web" already exists'
    assert refused.obj["details"] == {"name": "web", "kind": "pods"}


def test_dry_run_answers_and_stores_nothing(api):
    before = api.server.revision
    created = api.create("pods", api.pod(), dryRun="All")
    assert created.status == 201
    assert created.meta["uid"]
    assert "resourceVersion" not in created.meta
    assert api.server.revision == before
    assert not api.exists("pods", "web")


def test_nothing_is_created_in_a_namespace_that_is_not_there(api):
    refused = api.create("pods", api.pod(), namespace="nowhere")
    assert (refused.status, refused.message) == (404, 'namespaces "nowhere" not found')


def test_the_first_namespaces_are_there_from_the_start(api):
    assert api.list("namespaces").names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    default = api.get("namespaces", "default").obj
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert default["spec"] == {"finalizers": ["kubernetes"]}
    assert default["status"] == {"phase": "Active"}


@pytest.mark.parametrize(
    "body,text",
    [
        (
            b"{",
            "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error:",
        ),
        (b"[]", "json: cannot unmarshal array into Go value"),
        (b'{"kind":"Node","apiVersion":"v1"}', 'Node in version "v1" cannot be handled as a Pod:'),
        (
            b'{"kind":"Pod","apiVersion":"v2"}',
            'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme',
        ),
        (b'{"kind":7}', 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":7})'),
        (
            b'{"metadata":{"name":"x","labels":{"a":1}}}',
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            b'{"spec":{"containers":{}}}',
            (
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field '
                "PodSpec.spec.containers of type []v1.Container"
            ),
        ),
        (
            b'{"spec":{"containers":[{"env":[{"name":"A","value":true}]}]}}',
            "json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            b'{"spec":{"terminationGracePeriodSeconds":"30"}}',
            "cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            b'{"spec":{"priority":1.5}}',
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            b'{"spec":{"priority":2147483648}}',
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            b'{"spec":{"terminationGracePeriodSeconds":9223372036854775808}}',
            "number 9223372036854775808 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            b'{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"much"}}}]}}',
            "quantities must match the regular expression",
        ),
        (
            b'{"metadata":{"name":"x","namespace":"other"}}',
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_a_body_that_is_no_such_object_is_a_bad_request_that_names_what_is_wrong(api, body, text):
    refused = api.send("POST", PODS, body)
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert text in refused.message


def test_a_new_object_has_no_version_yet(api):
    body = api.pod()
    body["metadata"]["resourceVersion"] = "5"
    refused = api.create("pods", body)
    assert (refused.status, refused.message) == (500, "resourceVersion should not be set on objects to be created")


def test_nulls_and_fields_that_the_kind_does_not_have_are_dropped(api):
    body = api.pod(nodeName=None, affinty={"typo": True})
    body["metadata"] |= {"managedFields": [{"manager": "x"}], "creationTimestamp": None}
    created = api.create("pods", body)
    assert created.status == 201
    assert "nodeName" not in created.obj["spec"]
    assert "affinty" not in created.obj["spec"]
    assert "managedFields" not in created.meta


CONTAINER = {"name": "c", "image": "i"}
INVALID_PODS = [
    ({"containers": []}, {"spec.containers": "Required value"}),
    ({"containers": [{"image": "i"}]}, {"spec.containers[0].name": "Required value"}),
    ({"containers": [{"name": "c"}]}, {"spec.containers[0].image": "Required value"}),
    ({"containers": [CONTAINER, CONTAINER]}, {"spec.containers[1].name": 'Duplicate value: "c"'}),
    (
        {"restartPolicy": "Sometimes"},
        {"spec.restartPolicy": 'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'},
    ),
    (
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}]}]},
        {"spec.containers[0].ports[0].containerPort": "Required value"},
    ),
    (
        {"containers": [{**CONTAINER, "ports": [{"containerPort": 70000}]}]},
        {"spec.containers[0].ports[0].containerPort": "Invalid value: 70000: must be between 1 and 65535, inclusive"},
    ),
    (
        {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
        {"spec.containers[0].volumeMounts[0].name": 'Not found: "v"'},
    ),
    (
        {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
        {"spec.containers[0].resources.requests": 'Invalid value: "2": must be less than or equal to cpu limit of 1'},
    ),
    (
        {"containers": [{**CONTAINER, "resources": {"requests": {"example.com/gpu": "1"}}}]},
        {"spec.containers[0].resources.limits": ("Required value: Limit must be set for non overcommitable resources")},
    ),
    (
        {"activeDeadlineSeconds": 0},
        {"spec.activeDeadlineSeconds": "Invalid value: 0: must be between 1 and 2147483647, inclusive"},
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        {"spec.tolerations[0].operator": "Invalid value: \"b\": value must be empty when `operator` is 'Exists'"},
    ),
]


@pytest.mark.parametrize("spec,causes", INVALID_PODS)
def test_an_invalid_pod_is_refused_with_its_causes(api, spec, causes):
    refused = api.create("pods", api.pod(**spec))
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert refused.causes == causes
    field, text = next(iter(causes.items()))
    assert refused.message == f'Pod "web" is invalid: {field}: {text}'
    assert refused.obj["details"]["kind"] == "Pod"


def test_several_causes_are_told_together(api):
    refused = api.create("pods", api.pod(containers=[{}]))
    assert refused.message == (
        'Pod "web" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image: Required value]'
    )


@pytest.mark.parametrize(
    "meta,field,text",
    [
        ({}, "metadata.name", "Required value: name or generateName is required"),
        ({"name": "Web"}, "metadata.name", 'Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of '),
        ({"name": "Web"}, "metadata.name", " (e.g. 'example.com', regex used for validation is '[a-z0-9]("),
        ({"name": "x" * 254}, "metadata.name", f'Invalid value: "{"x" * 254}": must be no more than 253 characters'),
        ({"name": "x", "labels": {"a/b/c": "v"}}, "metadata.labels", 'Invalid value: "a/b/c": a valid label key must '),
        ({"name": "x", "labels": {"/b": "v"}}, "metadata.labels", 'Invalid value: "/b": prefix part must be non-empty'),
        ({"name": "x", "labels": {"a": "-"}}, "metadata.labels", 'Invalid value: "-": a valid label must be an empty '),
        (
            {"name": "x", "annotations": {"a": "y" * 300_000}},
            "metadata.annotations",
            "may not be more than 262144 bytes",
        ),
        (
            {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}]},
            "metadata.ownerReferences.uid",
            'Invalid value: "": must not be empty',
        ),
        (
            {"name": "x", "finalizers": ["orphan", "foregroundDeletion"]},
            "metadata.finalizers",
            "finalizer orphan and foregroundDeletion cannot be both set",
        ),
    ],
)
def test_metadata_is_checked_in_upstreams_words(api, meta, field, text):
    body = api.pod()
    body["metadata"] = meta
    refused = api.create("pods", body)
    assert refused.status == 422
    assert text in refused.causes[field]


def test_the_priority_of_a_pod_is_its_class(api):
    api.create("priorityclasses", {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = api.create("pods", api.pod("a", priorityClassName="high")).obj["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    critical = api.create("pods", api.pod("b", priorityClassName="system-node-critical"))
    assert critical.obj["spec"]["priority"] == 2_000_001_000

    unknown = api.create("pods", api.pod("c", priorityClassName="low"))
    assert (unknown.status, unknown.message) == (
        403,
        'pods "c" is forbidden: no PriorityClass with name low was found',
    )
    cheating = api.create("pods", api.pod("d", priority=5))
    assert cheating.message.startswith('pods "d" is forbidden: the integer value of priority (5) must not be provided')


@pytest.mark.parametrize(
    "path, hint",
    [
        ("/api/v1/podz", " (v1 podz is not served here)"),
        ("/api/v2/pods", " (v2 pods is not served here, v1 is)"),
        ("/apis/events.k8s.io/v2/events", " (events.k8s.io/v2 events is not served here, events.k8s.io/v1 is)"),
        ("/apis/apps/v1", ""),
        ("/", ""),
        ("/api/v1/nodes/n/log", ""),
        ("", ""),
    ],
)
def test_what_is_not_served_is_not_found(api, path, hint):
    refused = api.send("GET", path)
    assert (refused.status, refused.message) == (404, f"the server could not find the requested resource{hint}")


@pytest.mark.parametrize(
    "method, subresource",
    [("GET", "log"), ("POST", "exec"), ("GET", "attach"), ("POST", "portforward"), ("GET", "proxy/index.html")],
)
def test_what_needs_a_running_container_says_that_none_runs(api, method, subresource):
    api.create("pods", api.pod())
    refused = api.send(method, f"{PODS}/web/{subresource}")
    name = subresource.partition("/")[0]
    assert (refused.status, refused.reason, refused.message) == (
        501,
        "NotImplemented",
        f"there is no pods/{name} here: the pods of this cluster run in appearance only",
    )


def test_a_method_that_a_path_does_not_take_is_not_allowed(api):
    assert api.send("POST", f"{PODS}/web", api.pod()).status == 405
    assert api.send("DELETE", "/api/v1/namespaces").status == 405
    assert api.send("POST", "/api/v1/pods", api.pod()).status == 405
    assert api.send("DELETE", "/api/v1/pods").status == 405
    assert api.send("TRACE", PODS).status == 405
