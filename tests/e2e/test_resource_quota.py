"""`kubectl create quota`, `get quota`, `describe quota`: a namespace stays within its quotas and limits.

On our cluster and a real kube-apiserver, whose words for what they refuse are the same.
"""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.manifests import pod
from tests.e2e.programs import until

CREATORS = 8


def until_used(kubectl: Kubectl, quota: str, used: dict[str, str]) -> None:
    def says() -> bool:
        return bool(kubectl.get("resourcequotas", quota).get("status", {}).get("used") == used)

    until(says, f"quota {quota} uses {used}", why=lambda: kubectl("get", "quota", "--output=yaml"))


def refused(kubectl: Kubectl, *arguments: str, given: str = "") -> str:
    done = kubectl.run(*arguments, given=given)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_namespace_stays_within_its_quota_and_gets_back_what_is_deleted(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "small", "--hard=count/configmaps=4,pods=2,requests.cpu=1,services.nodeports=0")
    until(lambda: "configmaps" in str(kubectl.get("resourcequotas", "small").get("status")), "it is counted")
    roots = len(kubectl.items("configmaps"))  # kube-root-ca.crt, if its publisher runs
    for number in range(4 - roots):
        kubectl("create", "configmap", f"c{number}")
    message = refused(kubectl, "create", "configmap", "more")
    assert (
        'error: failed to create configmap: configmaps "more" is forbidden: exceeded quota: small, '
        "requested: count/configmaps=1, used: count/configmaps=4, limited: count/configmaps=4"
    ) in message
    kubectl("delete", "configmap", "c0")
    used = {"count/configmaps": "3", "pods": "0", "requests.cpu": "0", "services.nodeports": "0"}
    until_used(kubectl, "small", used)
    kubectl("create", "configmap", "more")

    message = refused(kubectl, "run", "greedy", "--image=nginx")
    assert 'pods "greedy" is forbidden: failed quota: small: must specify requests.cpu for: greedy' in message
    kubectl.apply(pod("a", requests={"cpu": "600m"}))
    message = refused(kubectl, "create", "service", "nodeport", "n", "--tcp=80")
    assert "exceeded quota: small, requested: services.nodeports=1, used: services.nodeports=0" in message
    until_used(kubectl, "small", {**used, "count/configmaps": "4", "pods": "1", "requests.cpu": "600m"})

    line = kubectl("get", "quota", "small").splitlines()[1]
    assert re.sub(r"\d+s", "AGE", re.sub(r" {3,}", " | ", line)).split(" | ")[:2] == [
        "small",
        "count/configmaps: 4/4, pods: 1/2, requests.cpu: 600m/1, services.nodeports: 0/0",
    ]
    described = kubectl("describe", "quota", "small")
    assert re.search(r"requests\.cpu +600m +1\n", described)

    kubectl("delete", "pod", "a", "--grace-period=0", "--force")
    until_used(kubectl, "small", {**used, "count/configmaps": "4"})
    kubectl("delete", "quota", "small")
    kubectl("create", "configmap", "unlimited")


def test_quotas_are_about_their_scopes_and_change_with_their_limits(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "jobs", "--hard=pods=1", "--scopes=Terminating")
    kubectl("create", "quota", "rest", "--hard=pods=1", "--scopes=NotTerminating")
    for quota in ("jobs", "rest"):
        until_used(kubectl, quota, {"pods": "0"})
    kubectl.apply(pod("a"))
    until_used(kubectl, "rest", {"pods": "1"})
    until_used(kubectl, "jobs", {"pods": "0"})
    assert "exceeded quota: rest" in refused(kubectl, "run", "b", "--image=nginx")
    kubectl("patch", "quota", "rest", '--patch={"spec":{"hard":{"pods":"2"}}}')
    until(lambda: kubectl.get("resourcequotas", "rest")["status"]["hard"] == {"pods": "2"}, "two are allowed")
    kubectl("run", "b", "--image=nginx")
    # If the patch met another write of the pod, kube-apiserver would repeat it, and count the pod twice.
    kubectl("wait", "pod/b", "--for=condition=Ready", "--timeout=60s")
    kubectl("patch", "pod", "b", '--patch={"spec":{"activeDeadlineSeconds":600}}')
    until_used(kubectl, "jobs", {"pods": "1"})
    until_used(kubectl, "rest", {"pods": "1"})


def resize(kubectl: Kubectl, name: str, **requests: str) -> str:
    """Resize a pod; return the error."""
    container = {"name": "c", "resources": {"requests": requests}}
    patch = json.dumps({"spec": {"containers": [container]}})
    return kubectl.run("patch", "pod", name, "--subresource=resize", f"--patch={patch}").stderr


def test_a_pod_is_resized_within_its_quota_and_limits(kubectl: Kubectl) -> None:
    nobody = {"nodeSelector": {"kubernetes.io/os": "none"}}  # runs it
    made = pod("a", requests={"cpu": "100m", "memory": "1Mi"})
    kubectl.apply({**made, "spec": {**made["spec"], **nobody}})
    kubectl("create", "quota", "small", "--hard=requests.cpu=1")
    until_used(kubectl, "small", {"requests.cpu": "100m"})
    assert resize(kubectl, "a", cpu="800m") == ""
    until_used(kubectl, "small", {"requests.cpu": "800m"})
    words = "exceeded quota: small, requested: requests.cpu=201m, used: requests.cpu=800m, limited: requests.cpu=1"
    assert words in resize(kubectl, "a", cpu="1001m")
    assert resize(kubectl, "a", cpu="200m") == ""
    assert "only cpu and memory resources are mutable" in resize(kubectl, "a", **{"ephemeral-storage": "1Gi"})
    kubectl("delete", "pod", "a")
    until_used(kubectl, "small", {"requests.cpu": "0"})


def test_many_creators_at_once_do_not_exceed_a_quota(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "many", "--hard=count/secrets=10")
    until(lambda: "used" in kubectl.get("resourcequotas", "many").get("status", {}), "it is counted")
    before = len(kubectl.items("secrets"))

    def create(number: int) -> int:
        try:
            kubectl.api.request("POST", kubectl.path("secrets"), {"metadata": {"name": f"s{number}"}})
        except HTTPError as err:
            return err.code
        return 201

    with ThreadPoolExecutor(CREATORS) as creators:
        codes = list(creators.map(create, range(40)))
    # kube-apiserver also gives up some that would have fitted, and takes these back later.
    assert codes.count(201) == len(kubectl.items("secrets")) - before <= 10 - before
    assert set(codes) <= {201, 403, 409}
    kubectl("delete", "secrets", "--all")
    until_used(kubectl, "many", {"count/secrets": "0"})


def test_containers_get_defaults_and_are_held_to_limits(kubectl: Kubectl) -> None:
    limits = {
        "type": "Container",
        "default": {"cpu": "300m"},
        "defaultRequest": {"cpu": "200m"},
        "max": {"cpu": "1"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    kubectl.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limits]}})

    def create() -> bool:
        """Create the pod again and report whether it has defaults; kube-apiserver applies a LimitRange with delay."""
        kubectl.run("delete", "pod", "a", "--grace-period=0", "--force")
        kubectl("run", "a", "--image=nginx")
        return bool(kubectl.get("pods", "a")["spec"]["containers"][0]["resources"])

    until(create, "a container has defaults")
    made = kubectl.get("pods", "a")
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "300m"}, "requests": {"cpu": "200m"}}
    annotation = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert annotation == "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
    api = kubectl.api
    for resources, words in (
        ({"limits": {"cpu": "2"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "200m"}},
            "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000",
        ),
    ):
        with pytest.raises(HTTPError) as refusal:
            api.request("POST", kubectl.path("pods"), pod("b", **resources))
        assert refusal.value.code == 403
        assert f'pods \\"b\\" is forbidden: {words}' in refusal.value.read().decode()
    described = kubectl("describe", "limits", "l")
    assert re.search(r"Container +cpu +- +1 +200m +300m +4\n", described)
