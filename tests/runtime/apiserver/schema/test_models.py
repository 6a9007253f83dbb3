import pytest

from runtime.apiserver.schema.models import FieldType, ModelName, Models, installed_models, model_of


@pytest.fixture(scope="module")
def models() -> Models:
    return installed_models()


@pytest.mark.parametrize(
    "group, version, kind, expected",
    [
        ("", "v1", "Pod", ("core_v1", "Pod")),
        ("apps", "v1", "Deployment", ("apps_v1", "Deployment")),
        ("rbac.authorization.k8s.io", "v1", "Role", ("rbac_v1", "Role")),
        ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", ("flowcontrol_v1", "FlowSchema")),
        ("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion", ("apiserverinternal_v1alpha1", "StorageVersion")),
    ],
)
def test_a_kind_is_found_in_the_module_of_its_group(
    models: Models, group: str, version: str, kind: str, expected: tuple[str, str]
) -> None:
    name = model_of(group, version, kind)
    assert name == expected
    assert models.find(name) is not None


@pytest.mark.parametrize(
    "model, field, expected, required",
    [
        (("apps_v1", "DeploymentSpec"), "replicas", FieldType("integer"), False),
        (("apps_v1", "DeploymentSpec"), "template", FieldType("model", ModelName("core_v1", "PodTemplateSpec")), True),
        (("core_v1", "PodSpec"), "containers", FieldType("model", ModelName("core_v1", "Container"), many=True), True),
        (("core_v1", "Container"), "args", FieldType("string", many=True), False),
        (("core_v1", "ResourceRequirements"), "limits", FieldType("map"), False),
        (("core_v1", "ServicePort"), "targetPort", FieldType("int_or_string"), False),
        (("core_v1", "Event"), "eventTime", FieldType("micro_time"), False),
        (("meta_v1", "ObjectMeta"), "creationTimestamp", FieldType("time"), False),
        (("networking_v1", "NetworkPolicyIngressRule"), "from", None, False),
    ],
)
def test_fields_carry_their_json_name_type_and_whether_they_are_required(
    models: Models, model: tuple[str, str], field: str, expected: FieldType | None, required: bool
) -> None:
    found = models.find(ModelName(*model))
    assert found is not None
    assert found.fields[field].required is required
    assert expected is None or found.fields[field].type == expected


def test_descriptions_come_without_the_librarys_layout(models: Models) -> None:
    spec = models.find(ModelName("apps_v1", "DeploymentSpec"))
    assert spec is not None
    assert spec.description == "DeploymentSpec is the specification of the desired behavior of the Deployment."
    assert spec.describe("strategy") == "The deployment strategy to use to replace existing pods with new ones."
    assert "\n" not in spec.describe("progressDeadlineSeconds")
    assert spec.describe("no such field") == ""


def test_a_closure_holds_every_type_that_is_referred_to(models: Models) -> None:
    names = {model.name for model in models.closure([ModelName("apps_v1", "Deployment")])}
    assert {("meta_v1", "ObjectMeta"), ("core_v1", "Probe"), ("core_v1", "EnvVarSource")} <= names
    for name in names:
        model = models.find(name)
        assert model is not None
        assert all(field.type.model is None or field.type.model in names for field in model.fields.values())


def test_what_upstream_does_not_define_is_absent(models: Models) -> None:
    assert models.find(model_of("example.com", "v1", "Widget")) is None
    assert models.find(model_of("apps", "v1", "Widget")) is None
    assert models.find(model_of("apps.example.com", "v1", "Deployment")) is None
