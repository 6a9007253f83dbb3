import base64
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.apiserver.schema.protobuf import MAGIC, ProtobufDecoder, UnknownTypeError
from kcm.runtime.schema.api_types import built_in_types

# Bodies of kubectl 1.32 for `create deployment web --image=nginx --replicas=0 --port=80`, and so on.
DEPLOYMENT = (
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErgBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEoYBCAASDAoKCgNhcHASA3dlYhpsChw"
    "KABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkwSLgoFbmdpbngSBW5naW54KgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBK"
    "AFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
)
SECRET = "azhzAAoMCgJ2MRIGU2VjcmV0Eh4KEgoCcHcSABoAIgAqADIAOABCABIGCgFhEgFiGgAaACIA"
DISRUPTION_BUDGET = (
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOQoUCgRoYWxmEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoBYRIBYho"
    "KCAAYACAAKAAwABoAIgA="
)
SERVICE = (
    "azhzAAoNCgJ2MRIHU2VydmljZRJpCh0KAnMyEgAaACIAKgAyADgAQgBaCQoDYXBwEgJzMhJECh4KBzgwLWh0dHASA1RDUBhQIgoIARAAGgRodHRwKAA"
    "SCQoDYXBwEgJzMhoAIglDbHVzdGVySVA6AEIAUgBaAGAAaAAaAgoAGgAiAA=="
)
INGRESS = (
    "azhzAAofChRuZXR3b3JraW5nLms4cy5pby92MRIHSW5ncmVzcxI+ChIKAmkyEgAaACIAKgAyADgAQgASJBoiCgFhEh0KGwoZCgIvYhILIgkKAWMSBAo"
    "AEFAaBlByZWZpeBoCCgAaACIA"
)
QUOTA = "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRIxChIKAnEyEgAaACIAKgAyADgAQgASGQoKCgNjcHUSAwoBMgoLCgRwb2RzEgMKATEaABoAIgA="


@pytest.fixture(scope="module")
def decoder() -> ProtobufDecoder:
    return ProtobufDecoder(built_in_types())


@pytest.mark.parametrize(
    "encoded, expected",
    [
        (
            DEPLOYMENT,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}]}]},
                    },
                },
            },
        ),
        (SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pw"}, "data": {"a": "Yg=="}}),
        (
            DISRUPTION_BUDGET,
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "half"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            },
        ),
        (
            SERVICE,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s2", "labels": {"app": "s2"}},
                "spec": {
                    "type": "ClusterIP",
                    "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
                    "selector": {"app": "s2"},
                },
            },
        ),
        (
            INGRESS,
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "metadata": {"name": "i2"},
                "spec": {
                    "rules": [
                        {
                            "host": "a",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/b",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "c", "port": {"number": 80}}},
                                    }
                                ]
                            },
                        }
                    ]
                },
            },
        ),
        (
            QUOTA,
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q2"},
                "spec": {"hard": {"cpu": "2", "pods": "1"}},
            },
        ),
    ],
    ids=["deployment", "secret", "disruption budget", "service", "ingress", "quota"],
)
def test_requests_of_kubectl_are_decoded(decoder: ProtobufDecoder, encoded: str, expected: dict[str, Any]) -> None:
    assert decoder.decode(base64.b64decode(encoded)) == expected


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(**fields: int | str | bytes) -> bytes:
    """Return an encoded message with the fields f1, f2, …"""
    parts = []
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


def body(api_version: str, kind: str, content: bytes) -> bytes:
    return MAGIC + message(f1=message(f1=api_version, f2=kind), f2=content)


def meta(**fields: int | str | bytes) -> bytes:
    return message(f1=message(**fields))


@pytest.mark.parametrize(
    "api_version, kind, content, expected",
    [
        # metav1.Time and MicroTime; an unset time is omitted.
        ("v1", "Pod", meta(f1="a", f8=message(f1=1767322800, f2=5)), {"creationTimestamp": "2026-01-02T03:00:00Z"}),
        ("v1", "Pod", meta(f1="a", f8=b""), {}),
        ("v1", "Pod", meta(f1="a", f8=message(f1=-62135596800)), {}),
        # Negative numbers are encoded with 64 bits.
        ("v1", "Pod", meta(f1="a", f7=-3), {"generation": -3}),
        # A zero is kept in a pointer field only.
        ("v1", "Pod", meta(f1="a", f7=0, f10=0), {"deletionGracePeriodSeconds": 0}),
        ("v1", "Pod", meta(f1="a", f12=message(f1="k")), {"annotations": {"k": ""}}),
        # Unknown fields are skipped, whatever their wire type.
        ("v1", "Pod", meta(f1="a", f999="x", f998=1) + varint(997 << 3 | 1) + bytes(8), {}),
    ],
)
def test_metadata_is_decoded(
    decoder: ProtobufDecoder, api_version: str, kind: str, content: bytes, expected: dict[str, Any]
) -> None:
    assert decoder.decode(body(api_version, kind, content))["metadata"] == {"name": "a", **expected}


def test_parts_that_json_inlines_are_inlined(decoder: ProtobufDecoder) -> None:
    volume = message(f1="data", f2=message(f2=b""))  # VolumeSource.emptyDir
    key = message(f1=message(f1="config"), f2="key")  # ConfigMapKeySelector with its LocalObjectReference
    container = message(f1="c", f7=message(f1="X", f3=message(f3=key)))
    probe = message(f1=message(f2=message(f2=message(f1=0, f2=80))), f2=5)
    spec = message(f1=volume, f2=container + message(f10=probe))
    pod = decoder.decode(body("v1", "Pod", message(f2=spec)))
    assert pod["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]
    (found,) = pod["spec"]["containers"]
    assert found["env"] == [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "key"}}}]
    assert found["livenessProbe"] == {"httpGet": {"port": 80}, "initialDelaySeconds": 5}


def test_embedded_raw_json_is_decoded(decoder: ProtobufDecoder) -> None:
    revision = message(f2=message(f1=b'{"spec":{"a":1}}'), f3=7)
    assert decoder.decode(body("apps/v1", "ControllerRevision", revision)) == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "data": {"spec": {"a": 1}},
        "revision": 7,
    }


def test_options_are_understood_in_any_version(decoder: ProtobufDecoder) -> None:
    options = message(f1=0, f2=message(f1="uid"), f4="Background")
    for version in ("v1", "apps/v1"):
        decoded = decoder.decode(body(version, "DeleteOptions", options))
        assert decoded["gracePeriodSeconds"] == 0
        assert decoded["preconditions"] == {"uid": "uid"}
        assert decoded["propagationPolicy"] == "Background"


@pytest.mark.parametrize("groups", [b"\x20\x01\x20\x02\x20\x03", message(f4=b"\x01\x02\x03")], ids=["plain", "packed"])
def test_repeated_numbers_may_be_packed(decoder: ProtobufDecoder, groups: bytes) -> None:
    pod = decoder.decode(body("v1", "Pod", message(f2=message(f14=groups))))
    assert pod["spec"]["securityContext"] == {"supplementalGroups": [1, 2, 3]}


@pytest.mark.parametrize(
    "api_version, kind", [("example.com/v1", "Widget"), ("v1", "Widget"), ("", ""), ("apiextensions.k8s.io/v1", "X")]
)
def test_kinds_without_numbers_are_named(decoder: ProtobufDecoder, api_version: str, kind: str) -> None:
    with pytest.raises(UnknownTypeError, match=f'"{kind}"'):
        decoder.decode(body(api_version, kind, b""))


@given(tail=st.binary(max_size=60))
@settings(max_examples=150)
def test_broken_bodies_are_value_errors(decoder: ProtobufDecoder, tail: bytes) -> None:
    for broken in (tail, MAGIC + tail, body("v1", "Pod", tail), base64.b64decode(SERVICE)[: len(tail)]):
        try:
            decoder.decode(broken)
        except ValueError:
            continue
        assert broken.startswith(MAGIC)


def test_every_field_has_a_number_except_those_of_the_envelope() -> None:
    types = built_in_types()
    without = {
        (name.rpartition(".")[2], field.name)
        for name in types
        if (found := types.find(name)) is not None
        for field in found.fields.values()
        if not field.number
    }
    assert {field for type_, field in without if type_ != "Info"} == {"apiVersion", "kind"}


def entry(key: str, value: bytes) -> bytes:
    """Return an encoded entry of a map."""
    return message(f1=key, f2=value)


def test_maps_of_structs_and_lists_are_decoded(decoder: ProtobufDecoder) -> None:
    cores, memory = entry("cores", message(f2=8)), entry("memory", message(f1=message(f1="1Gi")))
    device = message(f1="gpu-0", f2=message(f1=cores, f2=memory))
    found = decoder.decode(body("resource.k8s.io/v1beta1", "ResourceSlice", message(f2=message(f6=device))))
    assert found["spec"]["devices"] == [
        {"name": "gpu-0", "basic": {"attributes": {"cores": {"int": 8}}, "capacity": {"memory": {"value": "1Gi"}}}}
    ]
    scopes = message(f1="a") + message(f1="b")
    review = message(f2=message(f5=entry("scopes", scopes)))
    found = decoder.decode(body("authorization.k8s.io/v1", "SubjectAccessReview", review))
    assert found["spec"] == {"extra": {"scopes": ["a", "b"]}}


def test_schema_of_a_custom_resource_is_decoded(decoder: ProtobufDecoder) -> None:
    count = message(f5="integer") + varint(11 << 3 | 1) + struct.pack("<d", 1.5)
    names = message(f1=message(f5="string"))  # items with a single schema
    schema = message(f5="object", f8=message(f1=b'{"count":3}'), f24=names, f29=entry("count", count))
    schema += message(f30=message(f1=1)) + message(f32=entry("a", message(f2="b") + message(f2="c")))
    version = message(f1="v1", f2=1, f4=message(f1=schema))
    definition = message(f2=message(f1="example.com", f7=version))
    found = decoder.decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition))
    (shown,) = found["spec"]["versions"]
    assert shown["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "default": {"count": 3},
        "items": {"type": "string"},
        "properties": {"count": {"type": "integer", "minimum": 1.5}},
        "additionalProperties": True,
        "dependencies": {"a": ["b", "c"]},
    }


def test_too_deep_schema_is_a_value_error(decoder: ProtobufDecoder) -> None:
    schema = message(f5="object")
    for _ in range(3000):
        schema = message(f28=schema)
    definition = message(f2=message(f7=message(f4=message(f1=schema))))
    with pytest.raises(ValueError, match="nested too deeply"):
        decoder.decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition))
