"""Generation of api_types.json from a server's OpenAPI documents and upstream's modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcm.protocols import semantic_facts as facts
from kcm.runtime.apiserver.presentation.openapi.descriptions import TypeDescription
from kcm.runtime.apiserver.presentation.openapi.schemas import schema_of
from kcm.runtime.apiserver.schema.generate.__main__ import main
from kcm.runtime.apiserver.schema.generate.documents import UnknownVocabularyError, collect
from kcm.runtime.apiserver.schema.generate.layout import written
from kcm.runtime.apiserver.schema.generate.semantic import semantic_facts
from kcm.runtime.schema.api_types import FILE, ApiTypes, built_in_types

GROUP, STRING = "io.k8s.api.example.v1", {"type": "string"}
PROTO = """
package k8s.io.api.example.v1;

// What it is for.
message Widget {
  // Its name.
  optional .k8s.io.api.other.v1.Meta metadata = 1;

  optional WidgetSource widgetSource = 2;

  map<string, Values> labels = 3;

  repeated int32 sizes = 4;

  optional string ref = 5;
}

message WidgetSource {
  optional bytes file = 7;
}

message Values {
  repeated string items = 1;
}
"""
GO = """
package v1

import (
	other "k8s.io/api/other/v1"
)

// What it is for.
type Widget struct {
	other.TypeMeta `json:",inline"`
	// Its name.
	// +optional
	Metadata *other.Meta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	WidgetSource `json:",inline" protobuf:"bytes,2,opt,name=widgetSource"`
	Labels map[string]Values `json:"labels,omitempty" protobuf:"bytes,3,rep,name=labels"`
	Sizes []int32 `json:"sizes" protobuf:"varint,4,rep,name=sizes"`
	Ref *string `json:"$ref,omitempty" protobuf:"bytes,5,opt,name=ref"`
	private string
}

type WidgetSource struct {
	File []byte `json:"file,omitempty" protobuf:"bytes,7,opt,name=file"`
}

type Values []string
"""
OTHER_PROTO = "package k8s.io.api.other.v1;\n\nmessage Meta {\n  optional string name = 1;\n}\n"
OTHER_GO = """
package v1

type Meta origin

type origin struct {
	Name string `json:"name" protobuf:"bytes,1,opt"`
}
"""


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def document(**properties: Any) -> dict[str, Any]:
    widget = {
        "type": "object",
        "description": "What it is for.",
        "properties": {
            "apiVersion": STRING,
            "metadata": {"allOf": [reference("io.k8s.api.other.v1.Meta")], "description": "Its name."},
            "file": {"type": "string", "format": "byte"},
            "labels": {"type": "object", "additionalProperties": {"type": "array", "items": STRING}},
            "sizes": {
                "type": "array",
                "items": {"type": "integer", "format": "int32", "default": 0},
                "x-kubernetes-list-type": "set",
            },
            "$ref": {**STRING, "enum": ["a", "b"]},
            **properties,
        },
        "required": ["sizes"],
        "x-kubernetes-group-version-kind": [{"group": "example", "version": "v1", "kind": "Widget"}],
    }
    meta = {"type": "object", "properties": {"name": {**STRING, "default": ""}}}
    options = {
        "type": "object",
        "properties": {},
        "x-kubernetes-group-version-kind": [
            {"group": group, "version": "v1", "kind": "DeleteOptions"} for group in ("", "example")
        ],
    }
    schemas = {f"{GROUP}.Widget": widget, "io.k8s.api.other.v1.Meta": meta, f"{GROUP}.DeleteOptions": options}
    return {"components": {"schemas": schemas}}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Create a directory with the openapi/ and protos/ of a release."""
    for package, proto, go in (("example", PROTO, GO), ("other", OTHER_PROTO, OTHER_GO)):
        directory = tmp_path / "protos" / "api" / package / "v1"
        directory.mkdir(parents=True)
        (directory / "generated.proto").write_text(proto)
        (directory / "types.go").write_text(go)
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "apis__example__v1_openapi.json").write_text(json.dumps(document()))
    return tmp_path


def run(release: Path, protos: Path | None = None) -> int:
    given = ["--openapi-dir", release / "openapi", "--protos", protos or release / "protos"]
    return main([str(each) for each in (*given, "--out", release / "out.json")])


def generate(release: Path, protos: Path | None = None) -> bytes:
    assert run(release, protos) == 0
    return (release / "out.json").read_bytes()


def test_file_has_one_line_per_field(release: Path) -> None:
    assert generate(release).decode() == (
        '{"kinds":{\n'
        '"example/v1/Widget":"io.k8s.api.example.v1.Widget"\n'
        '},"types":{\n'
        '"io.k8s.api.example.v1.DeleteOptions":{"fields":{\n'
        "}},\n"
        '"io.k8s.api.example.v1.Widget":{"fields":{\n'
        ' "$ref":{"type":"string","pointer":true,"number":5},\n'
        ' "apiVersion":{"type":"string"},\n'
        ' "file":{"type":"bytes","number":[2,7]},\n'
        ' "labels":{"map":{"list":"string"},"number":3},\n'
        ' "metadata":{"type":"io.k8s.api.other.v1.Meta","pointer":true,"number":1},\n'
        ' "sizes":{"list":"int32","required":true,"number":4,"listType":"set"}}},\n'
        '"io.k8s.api.other.v1.Meta":{"fields":{\n'
        ' "name":{"type":"string","default":"","number":1}}}\n'
        "}}\n"
    )


def test_protobuf_facts_can_be_taken_from_a_previous_file(release: Path) -> None:
    made = generate(release)
    former = release / "former.json"
    former.write_bytes(made)
    assert generate(release, protos=former) == made


def test_types_are_read_back_as_they_were_written(release: Path) -> None:
    types = ApiTypes(generate(release))
    assert list(types) == [f"{GROUP}.DeleteOptions", f"{GROUP}.Widget", "io.k8s.api.other.v1.Meta"]
    widget = types.of_kind("example", "v1", "Widget")
    assert widget is not None
    assert widget.fields["file"].number == (2, 7)
    assert widget.fields["labels"].form == "map of lists"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "hostname"},
        {"type": "array", "items": {"type": "array", "items": STRING}, "x-kubernetes-new": True},
        {"anyOf": [STRING]},
        {"type": "integer"},
    ],
)
def test_unknown_schema_keywords_are_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(UnknownVocabularyError, match=r"Widget: novelty: "):
        collect([document(novelty=schema)])


def test_inconsistent_release_is_rejected(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = release / "protos" / "api" / "example" / "v1" / "generated.proto"
    file.write_text(PROTO.replace("repeated int32 sizes", "repeated int64 sizes"))
    assert run(release) == 1
    text = (
        "MismatchError: io.k8s.api.example.v1.Widget.sizes: "
        "repeated int64 in generated.proto, repeated int32 in OpenAPI\n"
    )
    assert capsys.readouterr().err == text


def test_release_without_modules_or_documents_is_rejected(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(release, protos=release / "openapi") == 1
    assert "MismatchError: io.k8s.api.example.v1 is in OpenAPI" in capsys.readouterr().err
    (release / "openapi" / "apis__example__v1_openapi.json").unlink()
    assert run(release) == 1
    assert capsys.readouterr().err == "NoTypesError: the OpenAPI documents contain no type of the Kubernetes API\n"


def test_types_that_are_not_upstreams_are_left_out(release: Path) -> None:
    made = generate(release)
    custom = {"components": {"schemas": {"com.example.v1.Widget": {"type": "object", "anyOf": []}}}}
    (release / "openapi" / "apis__example.com__v1_openapi.json").write_text(json.dumps(custom))
    assert generate(release) == made


def test_checked_in_file_has_the_generated_layout() -> None:
    content = json.loads(FILE.read_bytes())
    assert written(content["types"], content["kinds"]) == FILE.read_text()


def test_comparison_tables_of_controllers_match_the_file() -> None:
    assert Path(facts.__file__).read_text() == semantic_facts(built_in_types())


@pytest.fixture(scope="module")
def real_documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the documents of a kube-apiserver with all APIs enabled."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import assets_or_skip, real_server

    assets = assets_or_skip()
    everything = ("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true")
    directory = tmp_path_factory.mktemp("real")
    with real_server(directory, assets, *everything) as server:
        api = Api(server.kubeconfig)
        arguments = ["--server", api.url, "--token", api.token, "--ca-file", directory / "apiserver.crt"]
        out = directory / "api_types.json"
        assert main([str(each) for each in (*arguments, "--protos", FILE, "--out", out)]) == 0
        with api.open("GET", "/openapi/v3") as response:
            places = json.load(response)["paths"]
        for path, place in places.items():
            with api.open("GET", place["serverRelativeURL"]) as response:
                (directory / f"{path.replace('/', '__')}_openapi.json").write_bytes(response.read())
    return directory


@pytest.mark.cluster
def test_a_kube_apiserver_has_the_types_of_the_file(real_documents: Path) -> None:
    """The release is that of the file. Facts that only generated.proto contains are taken from the file itself."""
    assert (real_documents / "api_types.json").read_bytes() == FILE.read_bytes()


@pytest.mark.cluster
def test_schemas_are_served_as_kube_apiserver_serves_them(real_documents: Path) -> None:
    """Descriptions and enumerations are not compared."""
    types = built_in_types()
    found = set()
    for file in real_documents.glob("*_openapi.json"):
        for name, real in json.loads(file.read_bytes()).get("components", {}).get("schemas", {}).items():
            type_ = types.find(name)
            assert type_ is not None
            ours = schema_of(type_, TypeDescription())
            real.pop("x-kubernetes-group-version-kind", None)
            assert comparable(ours) == comparable(real), name
            found.add(name)
    assert found == set(types)


def comparable(schema: Any) -> Any:
    """Remove descriptions, enumerations, empty defaults of elements, and the difference between $ref and allOf."""
    match schema:
        case {"allOf": [{"$ref": _} as to], **rest}:
            return comparable({**to, **rest})
        case dict():
            left_out = {"enum"} | ({"description"} if isinstance(schema.get("description"), str) else set())
            kept = {word: comparable(value) for word, value in schema.items() if word not in left_out}
            for word in ("items", "additionalProperties"):
                if isinstance(kept.get(word), dict):
                    kept[word].pop("default", None)
            return kept | ({"required": sorted(kept["required"])} if isinstance(kept.get("required"), list) else {})
        case list():
            return [comparable(each) for each in schema]
    return schema
