"""Scalar values are accepted, rejected and formatted as by kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.schema.scalars import SCALARS, UnmarshalTypeError
from kcm.runtime.schema.api_types import Kind


@pytest.mark.parametrize(
    "text, kept",
    [
        ("", ""),
        ("YQ==", "YQ=="),
        ("YWI=", "YWI="),
        ("YW\nI=", "YWI="),
        ("YWJj\r\n", "YWJj"),
        ("Zm9v\nYg=\n=", "Zm9vYg=="),
    ],
)
def test_bytes_are_base64_without_newlines(text: str, kept: str) -> None:
    assert SCALARS["bytes"].check(text) == kept


@pytest.mark.parametrize(
    "text, at",
    [
        *(("Y", 0), ("YQ", 0), ("YQ=", 3), ("YQ=a", 2), ("YQ==a", 4), ("Y===", 1), ("=", 0), ("YWI", 0), ("YWI==", 4)),
        *(("YWJjZ", 4), ("YWJj ZGVm", 4), ("%%", 0), ("YQ=\n", 4), ("YQ=\na", 3), ("é", 0), ("YWJjZGVmZ2hpamts%", 16)),
    ],
)
def test_invalid_base64_is_rejected_at_gos_position(text: str, at: int) -> None:
    """The expected positions are those of kube-apiserver 1.36."""
    with pytest.raises(UnmarshalTypeError) as refused:
        SCALARS["bytes"].check(text)
    assert str(refused.value) == f"illegal base64 data at input byte {at}"


@pytest.mark.parametrize("wrong", [True, [], {}, "1Gx", ""])
def test_invalid_quantity_is_rejected(wrong: Any) -> None:
    with pytest.raises(UnmarshalTypeError, match=r"^quantities must match the regular expression"):
        SCALARS["quantity"].check(wrong)


@pytest.mark.parametrize(
    "kind, value, error",
    [
        ("int32", 2**31, "json: cannot unmarshal number 2147483648 into Go value of type int32"),
        ("int64", 1.5, "json: cannot unmarshal number 1.5 into Go value of type int64"),
        ("boolean", "true", "json: cannot unmarshal string into Go value of type bool"),
        ("time", 7, "json: cannot unmarshal number into Go value of type string"),
        ("bytes", 7, "json: cannot unmarshal number into Go value of type []uint8"),
        ("int_or_string", True, "json: cannot unmarshal bool into Go value of type intstr.IntOrString"),
        ("raw", [], "json: cannot unmarshal array into Go value of type runtime.RawExtension"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Kind, value: Any, error: str) -> None:
    with pytest.raises(UnmarshalTypeError) as refused:
        SCALARS[kind].check(value)
    assert str(refused.value) == error


TIMES = [
    ("2026-01-02T03:04:05Z", True),
    ("2026-01-02T03:04:05.123456789Z", True),
    ("2026-01-02T03:04:05+14:00", True),
    ("2024-02-29T00:00:00Z", True),
    ("0000-01-01T00:00:00Z", True),
    ("2026-13-45T99:99:99Z", False),
    ("2026-02-29T00:00:00Z", False),
    ("2026-01-02T24:00:00Z", False),
    ("2026-01-02T03:04:60Z", False),
    ("2026-01-02T03:04:05+25:00", False),
    ("2026-01-02t03:04:05z", False),
    ("2026-01-02 03:04:05Z", False),
    ("2026-01-02T03:04:05", False),
    ("soon", False),
    ("", False),
]


@pytest.mark.parametrize("kind", ["time", "micro_time"])
@pytest.mark.parametrize(("text", "is_valid"), TIMES)
def test_only_existing_times_are_accepted(kind: Kind, text: str, is_valid: bool) -> None:
    if is_valid:
        assert SCALARS[kind].check(text) == text
    else:
        with pytest.raises(UnmarshalTypeError) as refused:
            SCALARS[kind].check(text)
        assert str(refused.value) == f"json: cannot unmarshal string {text} into Go value of type v1.Time"
