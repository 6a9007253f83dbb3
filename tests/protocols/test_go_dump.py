"""Pod templates in Go's dump format. The expected hashes are revisions of kube-controller-manager 1.36.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from kcm.protocols.go_dump import POD_TEMPLATE, dump
from kcm.protocols.go_structs import STRUCTS
from kcm.protocols.hashing import template_hash

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
    dumped = dump(quantity, "resource.Quantity")
    assert f"value:(int64){number} scale:(resource.Scale){scale}}}" in dumped
    assert f"s:(string){kept} Format:(resource.Format){form}}}" in dumped


@pytest.mark.parametrize(
    ("quantity", "words", "form"),
    [
        ("4611686018427387904", "0 250000000", "DecimalSI"),
        ("9223372036854775807", "18446744072709551616 499999999", "DecimalSI"),
        ("1000000000000000001", "11515845247265065472 54210108", "DecimalSI"),
        ("7Ei", "0 437500000", "BinarySI"),
        ("4611686018427387904k", "0 250000000000", "DecimalSI"),
        ("4611686018427387900m", "18446744073705551616 249999", "DecimalSI"),
        ("12345678901234567890123n", "4807115922877859019 669", "DecimalSI"),
        ("4611686018427387904e3", "0 250000000000", "DecimalExponent"),
    ],
)
def test_quantity_of_many_digits_is_a_decimal(quantity: str, words: str, form: str) -> None:
    # The expected dumps were made by Go.
    number = f"Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool)false abs:(big.nat)[{words}]}} scale:(inf.Scale)9}}"
    small = "i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0}"
    dumped = dump(quantity, "resource.Quantity")
    large = f"d:(resource.infDecAmount){{{number}}}"
    assert dumped == f"(resource.Quantity){{{small} {large} s:(string) Format:(resource.Format){form}}}"
    negative = number.replace("false", "true")
    assert dump(f"-{quantity}", "resource.Quantity") == dumped.replace(number, negative)


@pytest.mark.parametrize("quantity", ["1" * 100_000, "1e999999999", "1234567890123456789e999999999", "1e-999999999"])
def test_absurd_quantity_is_dumped_without_delay(quantity: str) -> None:
    assert "infDecAmount" in dump(quantity, "resource.Quantity")


def test_all_structs_that_fields_name_are_known() -> None:
    structs = {line.split()[0] for line in STRUCTS.strip().replace("\n  ", " ").splitlines()}
    assert POD_TEMPLATE in structs
    assert dump({}).count("<nil>") > 30
