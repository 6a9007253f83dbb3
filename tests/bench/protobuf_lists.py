"""Lists of pods in JSON and in protobuf, from a real kube-apiserver: `python -m tests.bench.protobuf_lists 10000`.

Measures the CPU time of the server (with etcd) for each list, and that of decoders in this process: orjson; upb, the C
library of the package google.protobuf, with messages that are made from the descriptions of the API's types; and
kcm's own decoder of request bodies. What a manager needs of a pod is read in both ways as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kcm.protocols.pods import pod_facts
from kcm.runtime.apiserver.schema.protobuf import MAGIC, ProtobufDecoder
from kcm.runtime.schema.api_types import Field, built_in_types
from tests.bench.http_client import Access, Client, HttpRequest
from tests.bench.pod_writer import pod
from tests.bench.processes import real_cluster
from tests.bench.server_requests import new_namespace

PODS = "/api/v1/namespaces/crowd/pods"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ROUNDS = 5
ROOT = "io.k8s.api.core.v1.PodList"
Descriptor = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "string": Descriptor.TYPE_STRING,
    "bytes": Descriptor.TYPE_BYTES,
    "boolean": Descriptor.TYPE_BOOL,
    "int32": Descriptor.TYPE_INT32,
    "int64": Descriptor.TYPE_INT64,
    "double": Descriptor.TYPE_DOUBLE,
}
# Types with an encoding of their own, by their kind in kcm.runtime.schema.api_types: names and types of their fields.
OWN = {
    "time": (("seconds", Descriptor.TYPE_INT64), ("nanos", Descriptor.TYPE_INT32)),
    "micro_time": (("seconds", Descriptor.TYPE_INT64), ("nanos", Descriptor.TYPE_INT32)),
    "quantity": (("string", Descriptor.TYPE_STRING),),
    "int_or_string": (
        ("type", Descriptor.TYPE_INT64),
        ("intVal", Descriptor.TYPE_INT32),
        ("strVal", Descriptor.TYPE_STRING),
    ),
    "raw": (("raw", Descriptor.TYPE_BYTES),),
    "any": (("raw", Descriptor.TYPE_BYTES),),
}


def main() -> None:
    count = int(sys.argv[1])
    with real_cluster(disabled=()) as cluster:
        new_namespace(cluster, "crowd")
        access = Access.read(cluster.kubeconfig)
        client = Client(access, connections=16)
        client.send([HttpRequest("POST", PODS, pod(number)) for number in range(count)])
        bodies = {}
        for accept in ("application/json", PROTOBUF):
            spent = []
            for _ in range(ROUNDS):
                cpu = cluster.cpu()
                bodies[accept] = _get(client, accept)
                time.sleep(0.5)
                spent.append(cluster.cpu() - cpu)
            print(f"{accept}: {len(bodies[accept]) / 1e6:.1f} MB, server CPU s {_shown(spent)}")
    _decoders(bodies["application/json"], bodies[PROTOBUF])


def _get(client: Client, accept: str) -> bytes:
    return client.read(PODS, accept=accept)


def _unwrapped(body: bytes) -> bytes:
    """Return the PodList in a response, which is the field `raw` of an envelope."""
    if not body.startswith(MAGIC):
        raise ValueError(f"not protobuf: {body[:40]!r}")
    envelope = descriptor_pb2.FileDescriptorProto(name="envelope.proto", syntax="proto2")
    message = envelope.message_type.add(name="Unknown")
    message.field.add(name="raw", number=2, type=Descriptor.TYPE_BYTES, label=Descriptor.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(envelope)
    unknown = message_factory.GetMessageClass(pool.FindMessageTypeByName("Unknown"))()
    unknown.ParseFromString(body[len(MAGIC) :])
    return bytes(unknown.raw)


def message_class(root: str) -> Any:
    """Return the message class of an API type, with the classes of all types that it contains."""
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", syntax="proto2")
    for name, fields in OWN.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, start=1):
            message.field.add(name=field, number=number, type=kind, label=Descriptor.LABEL_OPTIONAL)
    waiting, known = [root], {root}
    while waiting:
        name = waiting.pop()
        found = built_in_types().find(name)
        message = file.message_type.add(name=_identifier(name))
        for field in found.fields.values() if found is not None else ():
            if not field.number:
                continue
            at = _inlined(message, field.number[:-1])
            _add_field(at, field)
            if field.struct and field.struct not in known:
                known.add(field.struct)
                waiting.append(field.struct)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(_identifier(root)))


def _inlined(message: Any, path: tuple[int, ...]) -> Any:
    """Return the nested message that contains the fields of a path, which JSON shows in the outer message."""
    for number in path:
        name = f"Inlined{number}"
        nested = next((inner for inner in message.nested_type if inner.name == name), None)
        if nested is None:
            nested = message.nested_type.add(name=name)
            message.field.add(
                name=f"inlined{number}",
                number=number,
                type=Descriptor.TYPE_MESSAGE,
                label=Descriptor.LABEL_OPTIONAL,
                type_name=name,
            )
        message = nested
    return message


def _add_field(message: Any, field: Field) -> None:
    kind, type_name = _kind(field)
    label = Descriptor.LABEL_OPTIONAL if field.form == "one" else Descriptor.LABEL_REPEATED
    if field.form.startswith("map"):
        name = f"{field.name[0].upper()}{field.name[1:]}Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=kind, label=Descriptor.LABEL_OPTIONAL, type_name=type_name)
        kind, type_name = Descriptor.TYPE_MESSAGE, name
    message.field.add(name=field.name, number=field.number[-1], type=kind, label=label, type_name=type_name)


def _kind(field: Field) -> tuple[Any, str | None]:
    if field.kind in SCALARS:
        return SCALARS[field.kind], None
    if field.struct:
        return Descriptor.TYPE_MESSAGE, f".{_identifier(field.struct)}"
    return Descriptor.TYPE_MESSAGE, f".{field.kind}"


def _identifier(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def _decoders(text: bytes, response: bytes) -> None:
    pod_list, binary, of_bodies = message_class(ROOT), _unwrapped(response), ProtobufDecoder(built_in_types())

    def by_upb() -> Any:
        message = pod_list()
        message.ParseFromString(binary)
        return message

    if len(by_upb().items) != len(orjson.loads(text)["items"]):
        raise RuntimeError("upb and orjson found different numbers of pods")

    def facts_by_upb() -> list[Any]:
        return [
            (
                item.metadata.name,
                item.metadata.uid,
                dict(item.metadata.labels),
                item.spec.nodeName,
                item.status.phase,
                [(condition.type, condition.status) for condition in item.status.conditions],
                [(owner.kind, owner.uid) for owner in item.metadata.ownerReferences],
            )
            for item in by_upb().items
        ]

    def facts_by_orjson() -> list[Any]:
        return [pod_facts(item) for item in orjson.loads(text)["items"]]

    for name, act in {
        "orjson": lambda: orjson.loads(text),
        "orjson, and pod_facts": facts_by_orjson,
        "upb": by_upb,
        "upb, and the same fields": facts_by_upb,
        "kcm's decoder of bodies": lambda: of_bodies.decode(response),
    }.items():
        _measure(name, act)


def _measure(name: str, act: Callable[[], Any]) -> None:
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        act()
        spent.append(time.process_time() - began)
    print(f"{name:28} CPU s {_shown(spent)}")


def _shown(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.3f} ({ordered[0]:.3f}–{ordered[-1]:.3f})"


if __name__ == "__main__":
    main()
