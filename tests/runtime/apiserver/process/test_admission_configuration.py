"""Parsing and validation of admission configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.protocols.quota.scopes import ScopeRequirement
from kcm.runtime.apiserver.process.admission_configuration import ConfigurationError, read_configuration
from kcm.runtime.apiserver.registry.admission_settings import BY_DEFAULT, LimitedResource, PodSecuritySettings

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
QUOTA = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
SECURITY = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}


def written(path: Path, *plugins: Any, **head: Any) -> Path:
    file = path / "admission.yaml"
    file.write_text(yaml.safe_dump({**HEAD, "plugins": list(plugins), **head}))
    return file


def quota(*limited: Any) -> dict[str, Any]:
    return {"name": "ResourceQuota", "configuration": {**QUOTA, "limitedResources": list(limited)}}


def security(**fields: Any) -> dict[str, Any]:
    return {"name": "PodSecurity", "configuration": {**SECURITY, **fields}}


def test_configuration_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "security.yaml").write_text(
        yaml.safe_dump({**SECURITY, "defaults": {"enforce": "baseline"}, "exemptions": {"namespaces": ["a"]}})
    )
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    settings = read_configuration(
        written(
            tmp_path,
            quota(
                {"resource": "persistentvolumeclaims", "matchContains": ["requests.storage"]},
                {"apiGroup": "g", "resource": "r", "matchScopes": [scope]},
            ),
            {"name": "PodSecurity", "path": "security.yaml"},
            {"name": "LimitRanger"},
        )
    )
    assert settings.limited == (
        LimitedResource("", "persistentvolumeclaims", ("requests.storage",)),
        LimitedResource("g", "r", (), (ScopeRequirement("PriorityClass", "In", ("high",)),)),
    )
    assert settings.pod_security == PodSecuritySettings({"enforce": "baseline"}, namespaces=frozenset({"a"}))


def test_empty_configuration_has_the_defaults(tmp_path: Path) -> None:
    assert read_configuration(written(tmp_path)) == BY_DEFAULT
    assert read_configuration(written(tmp_path, {"name": "PodSecurity"}, {"name": "ResourceQuota"})) == BY_DEFAULT


@pytest.mark.parametrize(
    ("plugin", "because"),
    [
        ({"name": "Nothing"}, "unknown admission plugin 'Nothing'"),
        ({"name": "PodSecurity", "path": "x.yaml"}, "unable to read admission control configuration from"),
        ({"name": "ImagePolicyWebhook", "path": "x.yaml"}, "unknown admission plugin 'ImagePolicyWebhook'"),
        ({"name": "LimitRanger", "configuration": {}}, "the admission plugin 'LimitRanger' cannot be configured"),
        ({"name": "PodSecurity", "more": 1}, r"plugins\[0\]: unknown field 'more'"),
        ({"name": "ResourceQuota", "configuration": SECURITY}, "must be a ResourceQuotaConfiguration"),
        ({"name": "PodSecurity", "configuration": QUOTA}, "must be a PodSecurityConfiguration"),
        ({"name": "PodSecurity", "configuration": []}, r"plugins\[0\]: must be a map"),
        (quota({}), r"limitedResources\[0\]\.resource: Required value"),
        (quota({"resource": "r", "matchContains": "x"}), "must be a list"),
        (quota({"resource": "r", "matchContains": [1]}), "1 is not a string"),
        (quota({"resource": "r", "matchScopes": [{"scopeName": "x", "operator": "is"}]}), "'is' is not one of In"),
        (security(defaults={"enforce": "some"}), "levels are privileged, baseline, restricted"),
        (security(defaults={"enforce-version": "1.30"}), "versions 'latest' or v1.x: enforce-version: 1.30"),
        (security(exemptions={"namespaces": ["A"]}), "exemptions.namespaces: 'A': "),
        (security(exemptions={"usernames": ["a", "a"]}), "exemptions.usernames: 'a': Duplicate value"),
    ],
)
def test_invalid_configuration_is_refused(tmp_path: Path, plugin: Any, because: str) -> None:
    with pytest.raises(ConfigurationError, match=because):
        read_configuration(written(tmp_path, plugin))


def test_file_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="unable to read admission control configuration"):
        read_configuration(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="must be an AdmissionConfiguration"):
        read_configuration(written(tmp_path, kind="Policy"))
    with pytest.raises(ConfigurationError, match="duplicate admission plugin 'PodSecurity'"):
        read_configuration(written(tmp_path, security(), security()))
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ConfigurationError, match="while parsing"):
        read_configuration(tmp_path / "broken.yaml")
