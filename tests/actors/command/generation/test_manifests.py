"""Generated manifests: what they contain, and that an API server accepts and applies them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from kcm import ControllerSpec, Queue, Watch
from kcm.actors.command import run_kcm
from kcm.actors.command.generation.command import yaml_text
from kcm.commands import patch
from kcm.manifests import Definition, DefinitionFile, GenerationError, Permission, custom_resource_definitions
from kcm.outcomes import CommandError, Invalid
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS
from kcm.specs import itself
from kcm.testing import SimulatedCluster
from tests.actors.command.generation import operators
from tests.actors.command.generation.operators import CONFIGMAPS, IN_SHOP, SPEC, WEBSITES

HERE = "tests.actors.command.generation.operators"
RBAC = "rbac.authorization.k8s.io"


def manifests(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run_kcm.main(["manifests", *arguments]) == 0
    text = capsys.readouterr().out
    documents = list(yaml.safe_load_all(text))
    assert yaml_text(documents) == text
    return documents


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]


def rules(objects: list[dict[str, Any]], kind: str, namespace: str | None = None) -> set[tuple[str, ...]]:
    """Return (verbs, resource, names) of the rules of roles."""
    roles = [role for role in of_kind(objects, kind) if role["metadata"].get("namespace") == namespace]
    return {
        (" ".join(rule["verbs"]), resource, *rule.get("resourceNames", ()))
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
    }


def test_a_role_has_what_the_controller_watches_and_declares_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    objects = manifests(capsys, f"{HERE}:SPEC", "--namespace=web")
    assert rules(objects, "ClusterRole") == {
        ("list watch", "websites"),
        ("patch", "websites/status"),
        ("get list watch create patch", "configmaps"),
        ("create patch", "events"),
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    }
    assert rules(objects, "Role", "web") == {("create", "leases"), ("get update", "leases", "website-controller")}
    for binding in (*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "website-controller", "namespace": "web"}]


def test_a_controller_of_one_namespace_has_a_role_there(capsys: pytest.CaptureFixture[str]) -> None:
    objects = manifests(capsys, f"{HERE}:IN_SHOP", "--namespace=web")
    assert rules(objects, "ClusterRole") == {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    assert rules(objects, "Role", "shop") == {
        ("list watch", "websites"),
        ("patch", "websites/status"),
        ("get list watch create patch", "configmaps"),
        ("create patch", "events"),
    }
    assert ("create patch", "events") in rules(objects, "Role", "web")


def test_flags_after_two_dashes_are_those_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    objects = manifests(
        capsys, f"{HERE}:SPECS", "--name=web", "--image=web:1", "--", "--leader-elect-resource-name=other", "-v=2"
    )
    assert ("get update", "leases", "other") in rules(objects, "Role", "web")
    (deployment,) = of_kind(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "web"
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["args"] == ["--leader-elect-resource-name=other", "-v=2"]
    assert container["image"] == "web:1"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_webhooks_have_a_service_configurations_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    objects = manifests(capsys, f"{HERE}:SERVING", "--namespace=web")
    (service,) = of_kind(objects, "Service")
    (configuration,) = of_kind(objects, "ValidatingWebhookConfiguration")
    (crd,) = of_kind(objects, "CustomResourceDefinition")
    for client in (
        configuration["webhooks"][0]["clientConfig"],
        crd["spec"]["conversion"]["webhook"]["clientConfig"],
    ):
        assert client["service"]["name"] == service["metadata"]["name"] == "website-controller-webhook"
        assert client["service"]["namespace"] == service["metadata"]["namespace"] == "web"
    stored, old = crd["spec"]["versions"]
    assert (stored["name"], stored["storage"], old["name"], old["storage"]) == ("v1", True, "v1alpha1", False)
    assert (old["deprecated"], old["deprecationWarning"]) == (True, "use v1")
    assert ("get list watch patch", "validatingwebhookconfigurations", "website-controller") in rules(
        objects, "ClusterRole"
    )
    assert ("get list watch patch", "customresourcedefinitions", "websites.example.com") in rules(
        objects, "ClusterRole"
    )


def test_files_are_written_into_a_directory_and_are_the_same_again(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        assert run_kcm.main(["manifests", f"{HERE}:SERVING", f"--output={tmp_path}"]) == 0
        texts.append({path.name: path.read_text() for path in tmp_path.iterdir()})
    assert texts[0] == texts[1]
    listed = yaml.safe_load(texts[0]["kustomization.yaml"])["resources"]
    assert listed == ["namespace.yaml", "crds.yaml", "rbac.yaml", "deployment.yaml", "webhooks.yaml"]
    assert texts[0].keys() == {*listed, "kustomization.yaml"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            [f"{HERE}:WITHOUT_PERMISSIONS"],
            "website-controller does not declare what it writes: permissions=(Permission",
        ),
        ([f"{HERE}:NOTHING"], f"{HERE} has no 'NOTHING'; it has SPEC, "),
        (["no_such_module:SPEC"], "there is no module 'no_such_module'"),
        ([HERE], "controllers are named as module:ATTRIBUTE"),
        ([f"{HERE}:WEBSITES"], f"{HERE}:WEBSITES is a ControllerSpec, a tuple of them"),
        ([f"{HERE}:SPEC", "--", "--no-such-flag"], "unknown flag: --no-such-flag"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_kcm.main(["manifests", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert text in captured.err
    assert captured.out == ""


def with_definition(world: SimulatedCluster) -> None:
    for crd in custom_resource_definitions([SPEC]):
        world.create(CUSTOM_RESOURCE_DEFINITIONS, crd)


def test_the_api_server_applies_defaults_and_constraints_of_the_model(world: SimulatedCluster) -> None:
    with_definition(world)
    created = world.create(WEBSITES, {"metadata": {"name": "blog"}, "spec": {"pages": [{"path": "/"}]}})
    assert created["spec"] == {
        "theme": "plain",
        "replicas": 1,
        "spare": 0,
        "pages": [{"path": "/", "title": ""}],
    }
    for wrong, text in (
        ({"replicas": 10}, "should be less than or equal to 9"),
        ({"spare": 2}, "at most replicas"),
        ({"theme": "other"}, "cannot be changed"),
        ({"pages": [{"path": "x"}]}, "should match '^/'"),
        ({"pages": [{"path": "/"}, {"path": "/"}]}, "Duplicate value"),
    ):
        with pytest.raises(CommandError) as err:
            world.merge(WEBSITES, "default/blog", {"spec": wrong})
        assert isinstance(err.value.failure, Invalid)
        assert text in err.value.failure.message
    scale = world.request("GET", "/apis/example.com/v1/namespaces/default/websites/blog/scale")
    assert scale.status == 200


def test_a_generated_definition_and_its_controller_work_together(world: SimulatedCluster) -> None:
    with_definition(world)
    world.manager(controllers=(SPEC,))
    world.create(WEBSITES, {"metadata": {"name": "blog"}, "spec": {}})
    assert world.run_until(lambda: world.get(CONFIGMAPS, "default/blog") is not None)
    world.run_for(5)
    found = world.get(WEBSITES, "default/blog")
    assert found is not None
    assert found["status"] == {"replicas": 1}


@pytest.mark.parametrize("spec", [SPEC, IN_SHOP], ids=["everywhere", "in one namespace"])
def test_a_request_without_a_permission_fails_the_test_and_names_the_rule(spec: Any, world: SimulatedCluster) -> None:
    with_definition(world)
    (first, *_) = spec.permissions
    world.manager(controllers=(operators.replace(spec, permissions=(first,)),))
    world.create(
        operators.Resource(version="v1", plural="namespaces", kind="Namespace", namespaced=False),
        {"metadata": {"name": "shop"}},
    )
    world.create(WEBSITES, {"metadata": {"name": "blog", "namespace": "shop"}, "spec": {}})
    with pytest.raises(AssertionError) as err:
        world.run_for(10)
    assert str(err.value) == (
        "website-controller may not patch websites/status.example.com: declare Permission(<websites>, "
        '("patch",), "status") in the permissions of its spec; the missing rule is '
        "{'apiGroups': ['example.com'], 'resources': ['websites/status'], 'verbs': ['patch']}"
    )


def test_a_permission_in_another_namespace_is_missing(world: SimulatedCluster) -> None:
    with_definition(world)
    elsewhere = Permission(CONFIGMAPS, ("ensure",), namespaces=("shop",))
    world.manager(controllers=(operators.replace(SPEC, permissions=(elsewhere, SPEC.permissions[1])),))  # type: ignore[index]
    world.create(WEBSITES, {"metadata": {"name": "blog"}, "spec": {}})
    with pytest.raises(AssertionError, match="may not create configmaps in namespace default: "):
        world.run_for(10)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Definition(CONFIGMAPS), "the group of configmaps has a domain"),
        (lambda: Permission(WEBSITES, ("write",)), "is one of ensure, get, "),
        (lambda: Permission(WEBSITES, ()), "are some of ensure, get, "),
        (lambda: Definition(WEBSITES, versions=(WEBSITES,)), "two versions of websites.example.com have one name"),
        (lambda: Definition(WEBSITES, unserved=("v2",)), "is one of v1, not 'v2'"),
    ],
)
def test_an_invalid_declaration_is_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def of_file(path: Path) -> Any:
    return custom_resource_definitions([replace(SPEC, definitions=(DefinitionFile(WEBSITES, path),))])


def test_a_definition_in_a_file_is_kept_as_it_is(tmp_path: Path) -> None:
    (generated,) = custom_resource_definitions([SPEC])
    path = tmp_path / "crd.yaml"
    path.write_text(yaml_text([generated]))
    assert of_file(path) == [generated]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ("websites.example.com", "sites.example.com"),
            "not contain one CustomResourceDefinition websites.example.com",
        ),
        (("scope: Namespaced", "scope: 3"), "the definition of websites.example.com cannot be read: "),
        (("name: v1", "name: v2"), "does not define version v1 of websites.example.com"),
        (("apiVersion: ", "apiVersion: }"), "crd.yaml"),
    ],
)
def test_a_file_without_the_definition_is_an_error(change: tuple[str, str], text: str, tmp_path: Path) -> None:
    path = tmp_path / "crd.yaml"
    path.write_text(yaml_text(custom_resource_definitions([SPEC])).replace(*change))
    with pytest.raises(GenerationError, match=re.escape(text)):
        of_file(path)


def test_a_missing_file_and_a_file_of_another_resource_are_errors(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match=r"cannot read .*absent\.yaml: No such file"):
        of_file(tmp_path / "absent.yaml")
    path = tmp_path / "map.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    with pytest.raises(GenerationError, match=r"does not contain one CustomResourceDefinition websites\.example\.com"):
        of_file(path)


def test_a_permission_by_name_is_a_rule_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="a creation cannot be permitted by name"):
        Permission(CONFIGMAPS, ("ensure",), names=("a",))
    objects = manifests(capsys, f"{HERE}:BINDING")
    assert ("bind", "clusterroles", "admin") in rules(objects, "ClusterRole")


COPIER = str(Path(__file__).parents[4] / "examples" / "copy_operator.py") + ":COPIER"
KUBECONFIG = ("--", "--kubeconfig=/etc/clusters/kubeconfig")


def test_each_cluster_has_its_own_role_and_the_home_has_the_pods(capsys: pytest.CaptureFixture[str]) -> None:
    hub = manifests(capsys, COPIER, "--cluster=hub", *KUBECONFIG)
    edge = manifests(capsys, COPIER, "--cluster=edge", *KUBECONFIG)
    in_every_home = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    assert rules(hub, "ClusterRole") == {("list watch", "configmaps"), ("create patch", "events"), *in_every_home}
    assert rules(edge, "ClusterRole") == {
        ("list watch create patch delete", "configmaps"),
        ("create patch", "events"),
    }
    assert rules(hub, "Role", "copy-controller") == {
        ("create", "leases"),
        ("get update", "leases", "copy-controller"),
    }
    assert of_kind(edge, "Role") == []
    (deployment,) = of_kind(hub, "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--kubeconfig=/etc/clusters/kubeconfig"]
    assert of_kind(edge, "Deployment") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((COPIER, *KUBECONFIG), "the controllers work on hub, edge: name one with --cluster, not ''"),
        ((COPIER, "--cluster=moon", *KUBECONFIG), "name one with --cluster, not 'moon'"),
        ((f"{HERE}:SPEC", "--cluster=hub"), "the controllers work on one cluster, without a name, not on 'hub'"),
        ((COPIER, "--cluster=hub"), "--kubeconfig is required, with a context for each of the clusters hub, edge"),
    ],
)
def test_cluster_that_does_not_fit_is_an_error(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_kcm.main(["manifests", *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_request_to_the_wrong_cluster_is_a_missing_permission() -> None:
    sources, copies = CONFIGMAPS.on("hub"), CONFIGMAPS.on("edge")

    class Confused:
        def reconcile(self, key: str) -> Any:
            yield patch(sources, key, {"data": {"a": "1"}})

    spec = ControllerSpec(
        name="confused",
        queues=(Queue(watches=(Watch(sources, to=itself, namespaces=("default",)),)),),
        build=lambda _context: Confused(),
        permissions=(Permission(copies, ("patch",)),),
    )
    world = SimulatedCluster(clusters=("hub", "edge"))
    world.manager(controllers=(spec,))
    world.create(sources, {"metadata": {"name": "settings"}})
    with pytest.raises(AssertionError, match=r"confused may not patch hub:configmaps.*<configmaps>\.on\(\"hub\"\)"):
        world.run_for(5)
