"""Manifests of an operator: CustomResourceDefinitions, RBAC, Deployment, Service and webhook configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from kcm.actors.command.generation.schemas import SchemaError, add_rule, inexpressible, schema_of
from kcm.actors.command.main import PORT
from kcm.actors.command.manifests import ManifestError, check_manifests, read_manifests
from kcm.actors.engine.webhooks.certificates import certificates_spec
from kcm.actors.engine.webhooks.configurations import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    conversion_settings,
    conversions_of,
    has_webhooks,
    webhook_configurations,
)
from kcm.actors.engine.webhooks.settings import PORT as WEBHOOK_PORT
from kcm.actors.engine.webhooks.settings import SERVICE_PORT, WebhookServing
from kcm.actors.options import Options
from kcm.actors.reconciliation.definitions import Definition, DefinitionFile, PrinterColumn
from kcm.actors.reconciliation.permissions import (
    Grant,
    declares_permissions,
    grants_of,
    is_namespaced,
    policy_rules,
)
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.reconciliation.watches import DefinedResource
from kcm.protocols.objects import Object, name_of, split_key
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, SECRETS, Resource
from kcm.runtime.serving.webhook_pages import WebhookHost

RBAC = "rbac.authorization.k8s.io"
KUBE_SYSTEM = "kube-system"
# Role of the ConfigMap with the authorities of clients; kube-apiserver creates it.
AUTHENTICATION_READER = "extension-apiserver-authentication-reader"
USER = 65532  # as images of distroless


class GenerationError(Exception):
    """Specs do not determine manifests. The text names the controller or the field, and what to declare."""


class OperatorProgram(Struct, frozen=True, kw_only=True):
    """Operator to generate manifests for.

    name: of the program, its Lease, and of all generated objects.
    namespace: of its pods.
    arguments: flags of the program.
    cluster: for which to generate, if the controllers work on several.
    """

    name: str
    namespace: str
    image: str
    specs: tuple[ControllerSpec, ...]
    options: Options
    replicas: int = 2
    arguments: tuple[str, ...] = ()
    cluster: str = ""

    @property
    def homes(self) -> frozenset[str]:
        """Return the clusters with a Lease of the program; only "" with one cluster."""
        return frozenset(spec.home_cluster for spec in self.specs)

    @property
    def serving(self) -> WebhookServing:
        return WebhookServing(name=self.name, namespace=self.namespace)


def manifests_of(program: OperatorProgram) -> dict[str, list[Object]]:
    """Return the objects by the name of their file, in the order in which they can be applied.

    Raises GenerationError.
    """
    files = {
        "namespace.yaml": [namespace_of_program(program)],
        "crds.yaml": custom_resource_definitions(program.specs, program.serving),
        "rbac.yaml": rbac_of(program),
        "deployment.yaml": [deployment_of(program)] if program.cluster in program.homes else [],
        "webhooks.yaml": webhooks_of(program),
    }
    return {name: objects for name, objects in files.items() if objects}


def custom_resource_definitions(specs: Iterable[ControllerSpec], serving: WebhookServing | None = None) -> list[Object]:
    """Return the CustomResourceDefinitions that the specs define, by name.

    serving: how the API server reaches conversion webhooks; None to leave them out.

    Raises GenerationError.
    """
    specs = tuple(specs)
    found: dict[str, DefinedResource] = {}
    for spec in specs:
        for definition in spec.definitions:
            name = definition.resource.name
            if found.setdefault(name, definition) != definition:
                raise GenerationError(f"{spec.name} and another controller define {name} differently")
    conversions = conversions_of(specs)
    if strangers := sorted(conversions.keys() - found.keys()):
        raise GenerationError(f"conversions of {strangers[0]}, and no controller has a Definition of it")
    objects = []
    for name in sorted(found):
        obj = definition_object(found[name])
        if name in conversions and serving is not None:
            missing = {each.source.version for each in conversions[name]} - {
                version["name"] for version in obj["spec"]["versions"]
            }
            if missing:
                raise GenerationError(f"the Definition of {name} lacks version {min(missing)}, which is converted")
            obj["spec"]["conversion"] = conversion_settings(name, serving)
        objects.append(obj)
    return objects


def _definitions(spec: ControllerSpec) -> list[Definition]:
    return [each for each in spec.definitions if isinstance(each, Definition)]


def definition_object(definition: DefinedResource) -> Object:
    """Return the CustomResourceDefinition. Raises GenerationError."""
    resource = definition.resource
    if isinstance(definition, DefinitionFile):
        return _read_definition(definition)
    assert isinstance(definition, Definition), definition
    names: Object = {
        "plural": resource.plural,
        "singular": definition.singular or resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    if definition.short_names:
        names["shortNames"] = [*definition.short_names]
    if definition.categories:
        names["categories"] = [*definition.categories]
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [_version(definition, each) for each in definition.all_versions],
        },
    }


def _read_definition(definition: DefinitionFile) -> Object:
    """Return the object in the file. Raises GenerationError if it is not the definition of this resource."""
    resource, path = definition.resource, definition.path
    try:
        manifests = read_manifests(path)
        check_manifests(manifests)
    except ManifestError as err:
        raise GenerationError(f"the definition of {resource.name} cannot be read: {err}") from err
    crds = [manifest.obj for manifest in manifests if manifest.obj["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind]
    if [name_of(crd) for crd in crds] != [resource.name]:
        raise GenerationError(f"{path} does not contain one CustomResourceDefinition {resource.name}")
    (crd,) = crds
    if resource.version not in (version["name"] for version in crd["spec"]["versions"]):
        raise GenerationError(f"{path} does not define version {resource.version} of {resource.name}")
    return crd


def _version(definition: Definition, resource: Resource[Any]) -> Object:
    assert resource.model is not None  # Definition checks that
    try:
        schema = schema_of(resource.model)
        for rule in definition.rules:
            add_rule(schema, rule)
    except SchemaError as err:
        raise GenerationError(f"{resource.id}: {err}") from err
    version: Object = {
        "name": resource.version,
        "served": resource.version not in definition.unserved,
        "storage": resource is definition.resource,
    }
    if resource.version in definition.deprecated:
        version["deprecated"] = True
        if warning := definition.deprecated[resource.version]:
            version["deprecationWarning"] = warning
    subresources: Object = {}
    if definition.status is not False and (definition.status or "status" in schema["properties"]):
        subresources["status"] = {}
    if definition.scale is not None:
        scale = definition.scale
        selector = {"labelSelectorPath": scale.selector} if scale.selector else {}
        paths = {"specReplicasPath": scale.replicas, "statusReplicasPath": scale.status_replicas}
        subresources["scale"] = {**paths, **selector}
    if subresources:
        version["subresources"] = subresources
    if definition.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in definition.columns]
    return {**version, "schema": {"openAPIV3Schema": schema}}


def _column(column: PrinterColumn) -> Object:
    found: Object = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        found["description"] = column.description
    return {**found, "priority": 1} if column.wide else found


def notes_on(specs: Iterable[ControllerSpec]) -> list[str]:
    """Return what the manifests do not contain, one line for each."""
    notes: dict[str, None] = {}
    for spec in specs:
        for definition in _definitions(spec):
            for resource in definition.all_versions:
                for text in inexpressible(resource.model or object):
                    notes[f"{resource.id}: {text}, and not in the schema: declare a CelRule, or validate(…)"] = None
        if spec.discovers is not None:
            notes[f"{spec.name} watches resources that it discovers: its role lists and watches all resources"] = None
    return [*notes]


def all_grants(program: OperatorProgram) -> list[Grant]:
    """Return all permissions of the program: those of its controllers, its Lease, its events and its webhooks.

    Raises GenerationError if a spec declares none.
    """
    grants: list[Grant] = []
    for spec in program.specs:
        if not declares_permissions(spec):
            raise GenerationError(
                f"{spec.name} does not declare what it writes: permissions=(Permission(…), …), () for nothing"
            )
        grants += grants_of(spec, program.options, program.cluster)
    if program.cluster not in program.homes:
        return grants
    own, leases = program.namespace, LEASES.plural
    if is_namespaced(grants):
        grants.append(Grant(own, EVENTS.group, EVENTS.plural, ("create", "patch")))  # about the Lease
    lease = program.options.leader_election.resource_name
    where = program.options.leader_election.resource_namespace
    grants += [
        Grant(where, LEASES.group, leases, ("create",)),  # a name cannot be required of a creation
        Grant(where, LEASES.group, leases, ("get", "update"), (lease,)),
        # Reviews of the tokens and the access of those who read the metrics.
        Grant("", "authentication.k8s.io", "tokenreviews", ("create",)),
        Grant("", "authorization.k8s.io", "subjectaccessreviews", ("create",)),
    ]
    return grants + _grants_of_webhooks(program)


def _grants_of_webhooks(program: OperatorProgram) -> list[Grant]:
    """Return the permissions to read and write the certificates, and to write the CAs into the configurations."""
    if not has_webhooks(program.specs):
        return []
    serving = program.serving
    grants = list(grants_of(certificates_spec(serving, program.specs, _no_host), program.options))
    namespace, secret = split_key(serving.secret_key)
    change = ("get", "patch")
    grants += [
        Grant(namespace, SECRETS.group, SECRETS.plural, ("create",)),
        Grant(namespace, SECRETS.group, SECRETS.plural, change, (secret,)),
    ]
    for resource, obj in webhook_configurations(program.specs, serving):
        grants.append(Grant("", resource.group, resource.plural, change, (name_of(obj),)))
    if converted := tuple(sorted(conversions_of(program.specs))):
        crds = CUSTOM_RESOURCE_DEFINITIONS
        grants.append(Grant("", crds.group, crds.plural, change, converted))
    return grants


def _no_host() -> WebhookHost:
    raise AssertionError("this process serves no webhooks")


def rbac_of(program: OperatorProgram) -> list[Object]:
    """Return the ServiceAccount, and the roles with their bindings. Raises GenerationError."""
    name, own = program.name, program.namespace
    subject = {"kind": "ServiceAccount", "name": name, "namespace": own}
    objects: list[Object] = [_object("v1", "ServiceAccount", name, own)]
    rules = policy_rules(all_grants(program))
    for namespace in sorted(rules):
        kind = "Role" if namespace else "ClusterRole"
        role = {**_object(f"{RBAC}/v1", kind, name, namespace), "rules": rules[namespace]}
        objects += [role, _binding(name, namespace, kind, name, subject)]
    if program.cluster in program.homes:
        objects.append(_binding(f"{name}-authentication-reader", KUBE_SYSTEM, "Role", AUTHENTICATION_READER, subject))
    return objects


def _binding(name: str, namespace: str, kind: str, role: str, subject: Object) -> Object:
    of_binding = _object(f"{RBAC}/v1", "RoleBinding" if namespace else "ClusterRoleBinding", name, namespace)
    return {**of_binding, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [subject]}


def namespace_of_program(program: OperatorProgram) -> Object:
    obj = _object("v1", "Namespace", program.namespace)
    obj["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    return obj


def deployment_of(program: OperatorProgram) -> Object:
    """Return the Deployment: a user without privileges, no writable file, probes, and a Lease among the replicas."""
    labels = {"app.kubernetes.io/name": program.name}
    ports: list[Object] = [{"name": "https", "containerPort": PORT}]
    container: Object = {"name": program.name, "image": program.image}
    if program.arguments:
        container["args"] = [*program.arguments]
    probe = {
        "httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"},
        "periodSeconds": 10,
        "timeoutSeconds": 15,
    }
    probes: Object = {
        "startupProbe": {**probe, "failureThreshold": 24},
        "livenessProbe": {**probe, "failureThreshold": 8},
    }
    if has_webhooks(program.specs):
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT})
        probes["readinessProbe"] = {"tcpSocket": {"port": "webhooks"}, "periodSeconds": 5}
    container |= {
        "ports": ports,
        **probes,
        "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spread = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    pod = {
        "serviceAccountName": program.name,
        "terminationGracePeriodSeconds": 30,  # the lease is released after the writes in flight
        "securityContext": security,
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": spread}]
            }
        },
        "containers": [container],
    }
    obj = _object("apps/v1", "Deployment", program.name, program.namespace)
    obj["metadata"]["labels"] = labels
    obj["spec"] = {
        "replicas": program.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return obj


def webhooks_of(program: OperatorProgram) -> list[Object]:
    """Return the Service of the webhooks and the WebhookConfigurations; the program writes the CAs into them."""
    if not has_webhooks(program.specs):
        return []
    service = _object("v1", "Service", program.serving.client_config("/")["service"]["name"], program.namespace)
    service["spec"] = {
        "selector": {"app.kubernetes.io/name": program.name},
        "ports": [{"name": "webhooks", "port": SERVICE_PORT, "targetPort": "webhooks"}],
    }
    return [service, *(obj for _, obj in webhook_configurations(program.specs, program.serving))]


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where}}


__all__: Sequence[str] = (
    "MUTATING_CONFIGURATIONS",
    "VALIDATING_CONFIGURATIONS",
    "GenerationError",
    "OperatorProgram",
    "custom_resource_definitions",
    "definition_object",
    "manifests_of",
    "notes_on",
)
