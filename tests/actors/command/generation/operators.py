"""Operator whose manifests the tests generate: a Website has a ConfigMap, and reports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from kcm import ControllerSpec, Key, Queue, Reconciliation, Resource, Tables, Watch, convert, validate
from kcm.commands import record
from kcm.manifests import CelRule, Definition, Permission, PrinterColumn, ScaleSubresource, cel, list_map
from kcm.objects import Object, ObjectMeta, own
from kcm.specs import itself
from kcm.steps import ensure, patch_status
from kcm.webhooks import AdmissionRequest


@dataclass(frozen=True, kw_only=True)
class Page:
    """Page of a website."""

    path: Annotated[str, Meta(pattern="^/", max_length=100)]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Spec:
    theme: Annotated[str, Meta(max_length=20), cel("self == oldSelf", "cannot be changed")] = "plain"
    replicas: Annotated[int, Meta(ge=0, le=9)] = 1
    spare: Annotated[int, Meta(ge=0)] = 0
    pages: Annotated[list[Page], Meta(max_length=20), list_map("path")] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Status:
    replicas: int = 0
    replicas_text: str | None = None


@dataclass(frozen=True, kw_only=True)
class Website:
    """Website of the example."""

    metadata: ObjectMeta
    spec: Spec
    status: Status = Status()


WEBSITES = Resource(group="example.com", version="v1", plural="websites", kind="Website", model=Website)
OLD_WEBSITES = Resource(group="example.com", version="v1alpha1", plural="websites", kind="Website", model=Website)
CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


class Websites:
    def __init__(self, tables: Tables) -> None:
        self._websites, self._maps = tables[WEBSITES], tables[CONFIGMAPS]

    def reconcile(self, key: Key) -> Reconciliation:
        website = self._websites.get(key)
        if website is None:
            return None
        obj = self._websites.map_of(website)
        page = {"metadata": {"name": website.metadata.name, "namespace": website.metadata.namespace}}
        yield from ensure(self._maps, own({**page, "data": {"theme": website.spec.theme}}, by=obj, of=WEBSITES))
        if website.status.replicas != website.spec.replicas:
            yield from patch_status(self._websites, website, {"replicas": website.spec.replicas})
            yield record(WEBSITES, obj, "Normal", "Published", "published")
        return None


def check(request: AdmissionRequest) -> None:
    pass


def same(website: Object) -> Object:
    return website


SPEC = ControllerSpec(
    name="website-controller",
    queues=(Queue(watches=(Watch(WEBSITES, to=itself), Watch(CONFIGMAPS, to=itself))),),
    build=lambda context: Websites(context.tables),
    permissions=(Permission(CONFIGMAPS, ("ensure",)), Permission(WEBSITES, ("patch",), "status")),
    definitions=(
        Definition(
            WEBSITES,
            short_names=("web",),
            categories=("all",),
            columns=(
                PrinterColumn("Theme", ".spec.theme"),
                PrinterColumn("Age", ".metadata.creationTimestamp", "date", wide=True),
            ),
            rules=(CelRule("self.spare <= self.replicas", "at most replicas", at="spec"),),
            scale=ScaleSubresource(),
        ),
    ),
)
SPECS = (SPEC,)
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", kind="ClusterRole", namespaced=False
)
BINDING = replace(SPEC, permissions=(Permission(CLUSTER_ROLES, ("bind",), names=("admin",)),))
WITHOUT_PERMISSIONS = replace(SPEC, permissions=None)
IN_SHOP = replace(
    SPEC,
    queues=(Queue(watches=tuple(replace(watch, namespaces=("shop",)) for watch in SPEC.watches)),),
    definitions=(),
)
SERVING = replace(
    SPEC,
    admission=(validate(WEBSITES, check),),
    conversion=(convert(WEBSITES, OLD_WEBSITES, same), convert(OLD_WEBSITES, WEBSITES, same)),
    definitions=(replace(SPEC.definitions[0], versions=(OLD_WEBSITES,), deprecated={"v1alpha1": "use v1"}),),
)


def more() -> list[ControllerSpec]:
    return [SPEC]
