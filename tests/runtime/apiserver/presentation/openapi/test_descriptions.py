from __future__ import annotations

from pathlib import Path

from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions, installed_descriptions
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.schema.api_types import built_in_types


def test_descriptions_do_not_have_the_layout_of_the_library() -> None:
    spec = installed_descriptions().of("io.k8s.api.apps.v1.DeploymentSpec")
    assert spec.text == "DeploymentSpec is the specification of the desired behavior of the Deployment."
    assert spec.of_field("strategy") == "The deployment strategy to use to replace existing pods with new ones."
    assert "\n" not in spec.of_field("progressDeadlineSeconds")
    assert spec.of_field("no such field") == ""


def test_a_field_named_like_a_keyword_has_its_description() -> None:
    rule = installed_descriptions().of("io.k8s.api.networking.v1.NetworkPolicyIngressRule")
    assert rule.of_field("from").startswith("from is a list of sources")


def test_a_type_without_a_description_has_empty_texts() -> None:
    nothing = installed_descriptions().of("io.k8s.api.core.v1.Widget")
    assert (nothing.text, nothing.of_field("spec")) == ("", "")


def test_without_the_library_types_are_served_without_descriptions(tmp_path: Path) -> None:
    pods = ResourceDefinition(plural="pods", kind="Pod")
    for directory in (None, tmp_path):
        made = OpenApi(Registry([pods]), built_in_types(), Descriptions(directory)).document("api/v1")
        assert made is not None
        document = made[1]
        assert b'"io.k8s.api.core.v1.PodSpec":{"type":"object","properties"' in document
        assert b'"description":"PodSpec' not in document
