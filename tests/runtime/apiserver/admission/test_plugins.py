"""Selection of admission plugins."""

from __future__ import annotations

import pytest

from kcm.protocols.admission_plugins import (
    ALWAYS_PULL_IMAGES,
    DEFAULT_TOLERATION_SECONDS,
    NAMESPACE_LIFECYCLE,
    ON_BY_DEFAULT,
    SERVICE_ACCOUNT,
    STORAGE_OBJECT_IN_USE_PROTECTION,
    WITHOUT_CONTROLLERS,
    enabled_plugins,
    without_controllers,
)
from tests.runtime.apiserver.conftest import Api


def test_default_plugins_can_be_enabled_and_disabled() -> None:
    enabled = enabled_plugins(enable=[ALWAYS_PULL_IMAGES], disable=[SERVICE_ACCOUNT])
    assert enabled == (ON_BY_DEFAULT | {ALWAYS_PULL_IMAGES}) - {SERVICE_ACCOUNT}


@pytest.mark.parametrize(
    ("enable", "disable", "why"),
    [
        (["Unheard"], [], "there is no admission plugin Unheard here"),
        ([SERVICE_ACCOUNT], [SERVICE_ACCOUNT], "in both enable-admission-plugins and disable-admission-plugins"),
    ],
)
def test_invalid_plugin_selection_is_rejected(enable: list[str], disable: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        enabled_plugins(enable=enable, disable=disable)


def test_plugins_that_need_controllers_are_off_without_them() -> None:
    running = {"serviceaccount-controller"}
    off = without_controllers(running.__contains__, enable=[STORAGE_OBJECT_IN_USE_PROTECTION])
    assert off == ("TaintNodesByCondition", "PodGroupProtection")


def test_disabled_plugin_has_no_effect(make_api: type[Api]) -> None:
    api = make_api(plugins=WITHOUT_CONTROLLERS - {DEFAULT_TOLERATION_SECONDS, NAMESPACE_LIFECYCLE})
    made = api.create("pods", api.pod(), namespace="none")
    assert (made.status, made.obj["spec"].get("tolerations")) == (201, None)


def test_always_pull_images_sets_the_pull_policy(make_api: type[Api]) -> None:
    api = make_api(plugins=WITHOUT_CONTROLLERS | {ALWAYS_PULL_IMAGES})
    pod = api.pod(containers=[{"name": "c", "image": "nginx:1", "imagePullPolicy": "Never"}])
    assert api.create("pods", pod).obj["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_protection_finalizers_are_added_if_a_controller_removes_them(make_api: type[Api]) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "c", "finalizers": ["example.com/a"]}, "spec": spec}
    finalizers = make_api(plugins=ON_BY_DEFAULT).create("persistentvolumeclaims", claim).meta["finalizers"]
    assert finalizers == ["example.com/a", "kubernetes.io/pvc-protection"]
    assert make_api().create("persistentvolumeclaims", claim).meta["finalizers"] == ["example.com/a"]
