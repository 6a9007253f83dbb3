"""Resources with a model: listers return its instances, and commands accept them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pydantic
import pytest
from structlog.testing import LogCapture

from kcm.actors.reconciliation import (
    Reconciliation,
    Watch,
    create,
    delete,
    ensure,
    ensure_finalizer,
    itself,
    must,
    own,
    owned,
    patch_status,
    record,
    remove_finalizer,
    update,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, bodies, drive, drive_steps
from kcm.protocols.messages.commands import Create, Delete, Patch
from kcm.protocols.models import ObjectMeta, as_object, codec_of
from kcm.protocols.objects import Key, decode_object
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


@dataclass(frozen=True)
class Spec:
    image: str
    replicas: int = 1
    ports: list[int] | None = None


@dataclass(frozen=True)
class Status:
    ready: int
    observedGeneration: int | None = None  # noqa: N815


@dataclass(frozen=True)
class Website:
    metadata: ObjectMeta
    spec: Spec
    status: Status | None = None


class PydanticSpec(pydantic.BaseModel):
    image: str
    replicas: int = 1


class PydanticWebsite(pydantic.BaseModel):
    metadata: dict[str, Any]
    spec: PydanticSpec


class StructWebsite(msgspec.Struct):
    metadata: dict[str, Any]
    spec: dict[str, Any]


class DictWebsite:
    """Model like the classes of lightkube-models, which decode lazily by default."""

    def __init__(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        self.metadata, self.spec = metadata, spec

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], lazy: bool = True) -> DictWebsite:
        assert not lazy
        return cls(d["metadata"], d["spec"])

    def to_dict(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "spec": self.spec}


WEBSITES = Resource(group="example.com", version="v1", plural="websites", kind="Website", model=Website)
AS_MAPS = Resource(group="example.com", version="v1", plural="websites", kind="Website")


def website(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": 2, "labels": {"a": "b"}}
    return {"metadata": meta, "spec": {"image": "nginx", **spec}, "more": {"that": "no model names"}}


def bench(*objects: Any) -> Bench:
    return Bench({WEBSITES: objects, CONFIGMAPS: []})


# Reading.


def test_a_lister_returns_models_and_the_same_while_the_object_is_the_same() -> None:
    tables = bench(website("blog", replicas=3, ports=[80])).tables
    lister = tables[WEBSITES]
    blog = lister.get("default/blog")
    assert blog is not None
    assert (blog.metadata.name, blog.spec, blog.status) == ("blog", Spec("nginx", 3, [80]), None)
    assert lister.get("default/blog") is blog
    assert lister.objects("default") == [blog]
    assert tables[WEBSITES] is lister
    maps = tables[AS_MAPS].get("default/blog")
    assert isinstance(maps, dict)
    assert lister.map_of(blog) is maps, "with all that the server sent"


@pytest.mark.parametrize("model", [PydanticWebsite, StructWebsite, DictWebsite])
def test_every_kind_of_model_is_decoded_and_encoded(model: type[Any]) -> None:
    resource = Resource(group="example.com", version="v1", plural="websites", kind="Website", model=model)
    tables = Bench({resource: [website("blog", replicas=3)]}).tables
    blog = tables[resource].get("default/blog")
    assert isinstance(blog, model)
    body = decode_object(create(resource, blog).body)
    assert body["kind"] == "Website"
    assert body["spec"] == {"image": "nginx", "replicas": 3}


def test_models_are_decoded_on_demand_and_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcm.runtime.tables.typed.MOST_MODELS", 2)
    lister = bench(*(website(name) for name in "abc")).tables[WEBSITES]
    models: Any = lister
    lister.entries()
    assert len(models._models) == 0
    a = lister.get("default/a")
    lister.get("default/b")
    lister.get("default/c")
    assert [entry.key for entry in models._models] == ["default/b", "default/c"]
    assert len(models._entries) == 2
    assert lister.get("default/a") == a


def test_class_that_is_not_a_model_is_refused_by_its_resource() -> None:
    with pytest.raises(
        TypeError, match="a model is a dataclass, a pydantic model, or a class with from_dict and to_dict, not int"
    ):
        Resource(version="v1", plural="things", kind="Thing", model=int)
    with pytest.raises(TypeError, match="a model is a class, not 'Website'"):
        Resource(version="v1", plural="things", kind="Thing", model="Website")  # type: ignore[call-overload]


# Malformed objects.


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Website, r"as Website: Expected `int`, got `str` - at `\$\.spec\.replicas`"),
        (PydanticWebsite, r"as PydanticWebsite: Input should be a valid integer.* - at spec\.replicas"),
    ],
)
def test_validation_error_of_a_model_names_the_field(model: type[Any], why: str) -> None:
    resource = Resource(group="example.com", version="v1", plural="websites", kind="Website", model=model)
    lister = Bench({resource: [website("blog", replicas="many"), website("shop")]}).tables[resource]
    assert lister.get("default/shop") is not None
    for read in (lambda: lister.get("default/blog"), lister.objects, lambda: lister.require("default/blog")):
        with pytest.raises(UnreadableError, match=f"websites.example.com default/blog cannot be read: {why}"):
            read()
    assert lister.is_unreadable("default/blog")
    assert [entry.key for entry in lister.unreadable("default")] == ["default/blog"]
    assert lister.maps.get("default/blog") is not None, "as a map it can be had"


class Websites:
    def __init__(self, *, tables: Tables) -> None:
        self._websites = tables[WEBSITES]

    def reconcile(self, key: Key) -> Reconciliation:
        website = self._websites.get(key)
        if website is not None:
            yield from patch_status(self._websites, website, Status(website.spec.replicas))
        return None


def test_malformed_object_is_held_back_logged_once_and_reported_by_the_check(
    cluster: SimulatedCluster, logs: LogCapture
) -> None:
    cluster.create(CRDS, DEFINITION)
    spec = ControllerSpec(
        name="websites",
        queues=(Queue(watches=(Watch(WEBSITES, to=itself),)),),
        build=lambda context: Websites(tables=context.tables),
    )
    system = cluster.manager(controllers=[spec])
    for name, replicas in (("blog", "many"), ("shop", 2)):
        cluster.create(WEBSITES, {"metadata": {"name": name}, "spec": {"image": "x", "replicas": replicas}})
    cluster.run_for(60.0)
    shop = cluster.get(AS_MAPS, "default/shop")
    assert shop is not None
    assert shop["status"] == {"ready": 2}
    logged = [
        entry for entry in logs.entries if entry["event"] == "reconcile held back" and entry["log_level"] == "warning"
    ]
    assert [entry["key"] for entry in logged] == ["default/blog"]
    check = system.checks()["unreadable-objects"]()
    assert check is not None
    assert "websites.example.com default/blog: as Website: Expected `int`, got `str` - at `$.spec.replicas`" in check
    assert 'kcm_unreadable_objects{resource="websites.example.com"} 1' in system.metrics_text()
    cluster.merge(WEBSITES, "default/blog", {"spec": {"replicas": 1}})
    cluster.run_for(5.0)
    assert system.checks()["unreadable-objects"]() is None
    blog = cluster.get(AS_MAPS, "default/blog")
    assert blog is not None
    assert blog["status"] == {"ready": 1}


CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)
DEFINITION = {
    "metadata": {"name": "websites.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


# Writing.


def test_commands_take_models_and_write_no_nulls() -> None:
    made = Website(ObjectMeta(name="blog", namespace="default"), Spec("nginx"))
    assert decode_object(create(WEBSITES, made).body) == {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "blog", "namespace": "default"},
        "spec": {"image": "nginx", "replicas": 1},
    }
    read = replace(made, metadata=replace(made.metadata, uid="u", resourceVersion="7"))
    assert delete(WEBSITES, read, unchanged=True) == Delete(WEBSITES.id, "default/blog", uid="u", resource_version="7")
    assert decode_object(update(WEBSITES, read).body)["metadata"]["resourceVersion"] == "7"
    assert record(WEBSITES, read, "Normal", "Read", "It was read").uid == "u"


def test_value_that_is_neither_map_nor_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"an object of websites\.example\.com is a map or a Website, not Spec"):
        create(WEBSITES, Spec("nginx"))  # type: ignore[misc]
    with pytest.raises(TypeError, match="an object of configmaps is a map, not Website"):
        create(CONFIGMAPS, Website(ObjectMeta(name="a"), Spec("x")))  # type: ignore[misc]
    with pytest.raises(TypeError, match="an object is a map or a model, not 7"):
        as_object(7)


def test_the_words_that_write_take_and_return_models() -> None:
    table = bench(website("blog", replicas=2))
    websites = table.tables[WEBSITES]

    def run(key: Key) -> Any:
        blog = websites.get(key)
        assert blog is not None
        blog = yield from ensure_finalizer(websites, blog, "example.com/dns")
        assert blog.metadata.finalizers == ["example.com/dns"]
        same = yield from ensure(websites, Website(ObjectMeta(name="blog", namespace="default"), Spec("nginx", 2)))
        assert same.spec == blog.spec
        scaled = yield from ensure(websites, Website(ObjectMeta(name="blog", namespace="default"), Spec("httpd", 2)))
        assert scaled.spec.image == "httpd"
        seen = yield from patch_status(websites, scaled, Status(1, observedGeneration=2))
        assert seen is not None
        assert seen.status == Status(1, 2)
        yield from must(create(CONFIGMAPS, own({"metadata": {"name": "page"}}, by=seen, of=WEBSITES)))
        yield from remove_finalizer(websites, seen, "example.com/dns")
        return None

    driven = drive_steps(run("default/blog"), table.accept, tables=table.tables)
    assert [type(command).__name__ for command in driven.commands] == ["Patch", "Patch", "Patch", "Create", "Patch"]
    assert all("more" not in body for body in bodies(driven, Patch)), "what no model names is left alone"
    (page,) = bodies(driven, Create)
    assert page["metadata"]["ownerReferences"][0]["uid"] == "uid-of-blog"
    blog = websites.get("default/blog")
    assert [config_map["metadata"]["name"] for config_map in owned(table.tables[CONFIGMAPS], by=blog)] == ["page"]


def test_a_reconciler_over_models_is_driven_by_hand() -> None:
    table = bench(Website(ObjectMeta(name="blog", namespace="default"), Spec("nginx", 4)))
    driven = drive(Websites(tables=table.tables), "default/blog", table.accept, tables=table.tables)
    (body,) = bodies(driven, Patch)
    assert body["status"] == {"ready": 4}


def test_codec_is_built_once() -> None:
    assert codec_of(Website) is codec_of(Website)
