"""Warnings of PodSecurity; the contract tests cover its rejections."""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.admission.pod_security.levels import LevelVersion, NamespacePolicy, policy_of
from tests.runtime.apiserver.conftest import Api

PREFIX = "pod-security.kubernetes.io/"
TOO_MUCH = 'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'


def label(api: Api, **modes: str | None) -> tuple[str, ...]:
    """Label the namespace, and return the warnings."""
    labels = {f"{PREFIX}{mode}": level for mode, level in modes.items()}
    answer = api.patch("namespaces", "default", {"metadata": {"labels": labels}})
    assert answer.status == 200, answer.obj
    return answer.warnings


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        ({}, NamespacePolicy()),
        ({"enforce": "baseline"}, NamespacePolicy(LevelVersion("baseline"), LevelVersion(), LevelVersion("baseline"))),
        ({"enforce": "baseline", "warn": "privileged"}, NamespacePolicy(LevelVersion("baseline"))),
        (
            {"enforce": "baseline", "enforce-version": "v1.20"},
            NamespacePolicy(LevelVersion("baseline", 20), LevelVersion(), LevelVersion("baseline", 20)),
        ),
        (
            {"enforce": "baseline", "enforce-version": "v1.20", "warn-version": "v1.21"},
            NamespacePolicy(LevelVersion("baseline", 20), LevelVersion(), LevelVersion("baseline", 21)),
        ),
        ({"enforce": "none"}, NamespacePolicy(LevelVersion("restricted"))),
        ({"audit": "none", "warn": "none"}, NamespacePolicy()),
    ],
)
def test_namespace_labels_are_parsed_into_a_policy(labels: dict[str, str], policy: NamespacePolicy) -> None:
    found, errors = policy_of({f"{PREFIX}{mode}": level for mode, level in labels.items()})
    assert found == policy
    assert bool(errors) == ("none" in labels.values())


def test_warn_level_only_warns(api: Api) -> None:
    label(api, warn="baseline")
    made = api.create("pods", api.pod(hostNetwork=True))
    assert (made.status, made.warnings) == (201, (TOO_MUCH,))
    assert api.create("pods", api.pod("good")).warnings == ()


def test_workload_is_admitted_with_a_warning(api: Api) -> None:
    label(api, enforce="baseline")
    template = api.template()
    template["spec"]["hostNetwork"] = True
    made = api.create("deployments", api.replicaset(template=template))
    assert (made.status, made.warnings) == (201, (TOO_MUCH,))


def test_stricter_level_warns_about_existing_pods(api: Api) -> None:
    for name in ("b", "a", "c"):
        api.create("pods", api.pod(name, hostNetwork=True))
    api.create("pods", api.pod("d", hostPID=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}]))
    api.create("pods", api.pod("good"))
    assert label(api, enforce="baseline") == (
        'existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): host namespaces",
        "d: host namespaces, hostPath volumes",
    )
    assert label(api, enforce="privileged") == ()
