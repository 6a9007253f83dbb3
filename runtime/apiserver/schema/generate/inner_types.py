"""Generate inner_types.json: the fields of kube-apiserver's internal types, in Go's order.

    python -m kcm.runtime.apiserver.schema.generate.inner_types --source kubernetes/pkg/apis --out FILE

--source: a release's pkg/apis. kube-apiserver's error messages show values in the form of these types, see
inner_forms.py.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

GROUPS = (
    *("admissionregistration", "apps", "autoscaling", "batch", "coordination", "core", "discovery", "flowcontrol"),
    *("networking", "node", "policy", "rbac", "resource", "scheduling", "storage"),
)
_ALIASES = {"api": "core", "v1": "metav1"}
_TYPE = re.compile(r"^type (\w+) (struct \{|[^\s={]+)$")
_FIELD = re.compile(r"^\t(\w+)\s+([\w.*\[\]]+)(?:\s+`json:\"([^\"]*)\"`)?")
_EMBEDDED = re.compile(r"^\t(\*?[\w.]+)(?:\s+`[^`]*`)?\s*$")
_NAME = re.compile(r"(?<![\w.])([A-Z]\w*)")
_QUALIFIED = re.compile(r"\b(\w+)\.([A-Z]\w*)")


def read(group: str, text: str) -> Iterator[tuple[str, object]]:
    """Yield (name, definition) for each type in a types.go. text: content of the file. group: such as "core".

    The definition of a struct is a list of [field name, type], where an embedded struct has the name "". The definition
    of any other type is the name of its underlying type.
    """
    fields: list[list[str]] = []
    name = ""
    for raw in text.splitlines():
        line = raw.partition("//")[0].rstrip()
        if not name and (found := _TYPE.match(line)):
            if found[2] == "struct {":
                name, fields = f"{group}.{found[1]}", []
            else:
                yield f"{group}.{found[1]}", _qualified(group, found[2])
        elif name and line == "}":
            yield name, fields
            name = ""
        elif name and (found := _EMBEDDED.match(line)):
            fields.append(["", _qualified(group, found[1])])
        elif name and (found := _FIELD.match(line)):
            fields.append([found[1], _qualified(group, found[2])])


def _qualified(group: str, type_: str) -> str:
    named = _NAME.sub(lambda match: f"{group}.{match[1]}", type_)
    return _QUALIFIED.sub(lambda match: f"{_ALIASES.get(match[1], match[1])}.{match[2]}", named)


def written(types: Mapping[str, object]) -> str:
    """Return the content of inner_types.json, with one line per type."""
    lines = (f"{json.dumps(name)}:{json.dumps(type_, separators=(',', ':'))}" for name, type_ in sorted(types.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a release's pkg/apis")
    parser.add_argument("--out", type=Path, required=True, help="inner_types.json to write")
    given = parser.parse_args(arguments)
    types: dict[str, object] = {}
    for group in GROUPS:
        types.update(read(group, (given.source / group / "types.go").read_text()))
    given.out.write_text(written(types))
    print(f"{len(types)} types")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
