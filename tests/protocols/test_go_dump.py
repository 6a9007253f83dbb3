"""Pod templates as Go dumps them. The hashes are of the revisions that kube-controller-manager 1.36.2 made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from protocols.go_dump import POD_TEMPLATE, dump
from protocols.go_structs import STRUCTS
from protocols.hashing import template_hash

RECORDED = orjson.loads(Path(__file__).with_name("hashed_templates.json").read_bytes())


@pytest.mark.parametrize("hash", RECORDED)
def test_the_hash_is_upstreams(hash: str) -> None:
    assert template_hash(RECORDED[hash], None) == hash


def test_each_count_of_collisions_gives_another() -> None:
    assert len({template_hash({}, count) for count in (None, 0, 1)}) == 3


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, "string", "(string)"),
        (["b", "a"], "[]string", "([]string)[b a]"),
        ([], "[]string", "([]string)<nil>"),
        ({"b": "2", "a": "1"}, "map[string]string", "(map[string]string)map[a:1 b:2]"),
        (80, "intstr.IntOrString", "(intstr.IntOrString){Type:(intstr.Type)0 IntVal:(int32)80 StrVal:(string)}"),
        ("web", "intstr.IntOrString", "(intstr.IntOrString){Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)web}"),
        ({"name": "a"}, "v1.SecretEnvSource", "LocalObjectReference:(v1.LocalObjectReference){Name:(string)a}"),
        (None, "v1.SecretEnvSource", "Optional:(*bool)<nil>"),
        ({"optional": False}, "v1.SecretEnvSource", "Optional:(*bool)false"),
        ("malformed", "v1.SecretEnvSource", "Optional:(*bool)<nil>"),
    ],
)
def test_values_are_dumped_with_their_types(value: Any, type: str, text: str) -> None:
    assert text in dump(value, type)


@pytest.mark.parametrize(
    ("quantity", "number", "scale", "kept", "form"),
    [
        ("0", 0, 0, "0", "DecimalSI"),
        ("100m", 100, -3, "100m", "DecimalSI"),
        ("2", 2, 0, "2", "DecimalSI"),
        ("1000M", 1000, 6, "", "DecimalSI"),
        ("128Mi", 128 << 20, 0, "", "BinarySI"),
        ("100Mi", 100 << 20, 0, "100Mi", "BinarySI"),
        ("12e6", 12, 6, "12e6", "DecimalExponent"),
        ("-5", -5, 0, "-5", "DecimalSI"),
        (None, 0, 0, "", ""),
        ("malformed", 0, 0, "", "DecimalSI"),
    ],
)
def test_a_quantity_keeps_its_text_where_go_does(quantity: Any, number: int, scale: int, kept: str, form: str) -> None:
    said = dump(quantity, "resource.Quantity")
    assert f"value:(int64){number} scale:(resource.Scale){scale}}}" in said
    assert f"s:(string){kept} Format:(resource.Format){form}}}" in said


def test_all_structs_that_fields_name_are_known() -> None:
    structs = {line.split()[0] for line in STRUCTS.strip().replace("\n  ", " ").splitlines()}
    assert POD_TEMPLATE in structs
    assert dump({}).count("<nil>") > 30
