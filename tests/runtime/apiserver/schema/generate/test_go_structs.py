"""Generation of protocols/go_structs.py from Go's source, and its consistency with the schema of the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kcm.protocols import go_structs as facts
from kcm.protocols.go_dump import StructField, structs
from kcm.runtime.apiserver.schema.generate.go_structs import FILES, AmbiguousStructError, go_structs, main
from kcm.runtime.schema.api_types import META, ApiType, Form, built_in_types

CORE = """
package v1

// What it is for.
type Widget struct {
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// Its sizes: `json:"no"`.
	Sizes []int32 `json:"sizes" protobuf:"varint,2,rep,name=sizes"`
	URL *string `json:"url,omitempty"`
	Source `json:",inline"`
	Parts []Part `json:"parts"`
	Since *metav1.Time `json:"since"`
	private string
	Hidden string `json:"-"`
}

type Source struct {
	Protocol Protocol `json:"protocol"`
}

type Part struct {
	Whole *Widget `json:"whole"`
}

type Protocol string

type Other struct {
	Name string `json:"name"`
}
"""
META_V1 = """
type ObjectMeta struct {
	UID types.UID `json:"uid,omitempty"`
}

type Time struct {
	time.Time `protobuf:"-"`
}
"""


def test_fields_are_in_gos_order() -> None:
    head, _, body = go_structs([CORE, META_V1], "v1.Widget").partition('STRUCTS = """\n')
    assert head == Path(facts.__file__).read_text(encoding="utf-8").partition('STRUCTS = """\n')[0]
    assert body.splitlines() == [
        "v1.ObjectMeta UID=uid:types.UID",
        "v1.Part Whole:*v1.Widget",
        "v1.Source Protocol:v1.Protocol",
        "v1.Widget ObjectMeta=metadata:v1.ObjectMeta Sizes:[]int32 URL=url:*string Source=:v1.Source Parts:[]v1.Part",
        "  Since:*v1.Time",
        '"""',
    ]


def test_ambiguous_struct_name_is_rejected_if_used() -> None:
    twice = "type Other struct {\n}\n"
    assert "v1.Part" in go_structs([CORE, META_V1, twice], "v1.Widget")
    with pytest.raises(AmbiguousStructError, match=r"v1\.Other"):
        go_structs([CORE, META_V1, twice], "v1.Other")


def test_the_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "go_structs.py"
    assert main(["--source", str(tmp_path), "--out", str(out)]) == 1
    for file, text in zip(FILES, (CORE.replace("Widget", "PodTemplateSpec"), META_V1), strict=True):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert main(["--source", str(tmp_path), "--out", str(out)]) == 0
    assert "v1.PodTemplateSpec ObjectMeta=metadata" in out.read_text(encoding="utf-8")
    assert "FileNotFoundError" in capsys.readouterr().err


# Comparison with the schema: a field that is missing in go_structs.py would change names of ControllerRevisions.


def in_schema(name: str) -> ApiType | None:
    """Return the type of a struct, or None for a struct that is only inlined in others."""
    short, types = name.removeprefix("v1."), built_in_types()
    return types.find(f"io.k8s.api.core.v1.{short}") or types.find(f"{META}.{short}")


def flat(fields: Iterable[StructField]) -> Iterator[StructField]:
    """Yield the fields of the JSON form, with those of inlined structs."""
    for field in fields:
        if field.key:
            yield field
        else:
            yield from flat(structs()[field.type])


def form_of(type_: str) -> Form:
    if type_ == "v1.ResourceList" or type_.startswith("map["):
        return "map"
    return "list" if type_.startswith("[]") else "one"


def test_each_struct_has_the_fields_that_the_schema_has() -> None:
    inlined = {field.type for fields in structs().values() for field in fields if not field.key}
    known = {name: of for name in structs() if (of := in_schema(name)) is not None}
    assert structs().keys() - known.keys() <= inlined
    for name, of in known.items():
        found = {field.key: field for field in flat(structs()[name])}
        assert found.keys() == of.fields.keys(), name
        for key, ours in found.items():
            field, held = of.fields[key], in_schema(ours.type.lstrip("*[]"))
            facts = (ours.type.startswith("*"), form_of(ours.type), held.name if held else "")
            assert facts == (field.pointer, field.form, field.struct or facts[2]), f"{name}.{key}"
