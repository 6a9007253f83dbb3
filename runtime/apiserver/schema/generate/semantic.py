"""Generator of protocols/semantic_facts.py: the facts by which controllers compare objects."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.runtime.apiserver.schema.api_types import ApiType, ApiTypes, Field

# Types that controllers compare: pod templates, claim templates, and the workloads that contain them.
ROOTS = (
    "io.k8s.api.apps.v1.DaemonSet",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.ReplicaSet",
    "io.k8s.api.apps.v1.StatefulSet",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.PodTemplateSpec",
    "io.k8s.api.core.v1.ReplicationController",
)
_FORMS = {"one": "", "list": "[]", "map": "{}"}
_HEAD = '''"""Facts for semantic equality of API types, made by `python -m kcm.runtime.apiserver.schema.generate`.

    core.v1.Volume emptyDir:*core.v1.EmptyDirVolumeSource    a type, then its fields
    *     is held by pointer: its zero is a value             []   is a list, {} a map with keys of the user's choice
    quantity, any (opaque JSON) or the type of what has fields; nothing for a string, a number, a boolean or a time

A field that is not here is a string, a number, a boolean or a time held by value, or a list of these.
"""

FACTS = """
'''


class AmbiguousTypeError(ValueError):
    """Two types have the same short name."""


def semantic_facts(types: ApiTypes) -> str:
    """Return the content of protocols/semantic_facts.py. Raises AmbiguousTypeError."""
    found = [type_ for type_ in types.closure(ROOTS) if type_.fields]
    names = {short_name(type_.name) for type_ in found}
    if len(names) != len(found):
        raise AmbiguousTypeError("two types have the same short name")
    return "".join([_HEAD, *sorted(_entry(type_) for type_ in found), '"""\n'])


def short_name(name: str) -> str:
    """Abbreviate a type's name: io.k8s.api.core.v1.Pod → core.v1.Pod."""
    return ".".join(name.split(".")[-3:])


def _entry(type_: ApiType) -> str:
    lines = [short_name(type_.name)]
    for word in _words(type_):
        if len(lines[-1]) + len(word) >= 119:
            lines.append(" ")
        lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"


def _words(type_: ApiType) -> Iterator[str]:
    for field in type_.fields.values():
        form = _FORMS[field.form]
        of = _of(field)
        if field.pointer or form == "{}" or of:
            yield f"{field.name}:{'*' if field.pointer else ''}{form}{of}"


def _of(field: Field) -> str:
    match field.kind:
        case "struct":
            return short_name(field.type)
        case "quantity":
            return "quantity"
        case "raw" | "any":
            return "any"
    return ""
