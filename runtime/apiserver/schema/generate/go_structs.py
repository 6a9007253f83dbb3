"""Make protocols/go_structs.py: Go's structs of pod templates, whose fields and their order a hash depends on.

    python -m kcm.runtime.apiserver.schema.generate.go_structs --source kubernetes/staging/src/k8s.io --out FILE

--source: a release's staging/src/k8s.io.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FILES = ("api/core/v1/types.go", "apimachinery/pkg/apis/meta/v1/types.go")
ROOT = "v1.PodTemplateSpec"
_WIDTH = 118
_OWN_DUMP = frozenset({"v1.Time", "v1.FieldsV1"})  # implemented by protocols/go_dump.py; a template has no FieldsV1
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_JSON = re.compile(r'json:"([^",]*)')
_OF_THE_PACKAGE = re.compile(r"(?<![\w.])([A-Z]\w*)")
_NAME = re.compile(r"\w+\.\w+")
_HEAD = '''"""Go's pod template structs, made by `python -m kcm.runtime.apiserver.schema.generate.go_structs`.

    v1.ContainerPort Name:string HostPort:int32 …    a struct, then its fields in Go's order: name and type
    VolumeDevice=volumeDevices    a field whose name in JSON does not follow from its own; nothing after "=": its fields
                                  stand among those of the struct that it is in
    *     a pointer    []    a slice    map[…]    a map

A type that is not here is a string under a name of its own.
"""

STRUCTS = """
'''


class _Field(NamedTuple):
    """Field of a Go struct. key: its name in JSON; "" if its struct is inlined."""

    name: str
    key: str
    type: str


class AmbiguousStructError(ValueError):
    """Two structs have the same name as Go prints it."""


def go_structs(texts: Sequence[str], root: str = ROOT) -> str:
    """Return the content of protocols/go_structs.py. Raises AmbiguousStructError.

    texts: Go files of packages named v1.
    """
    found = [(f"v1.{struct[1]}", list(_fields(struct[2]))) for text in texts for struct in _STRUCT.finditer(text)]
    structs = dict(found)
    held = _closure(structs, root)
    for name, times in Counter(name for name, _ in found).items():
        if times > 1 and name in held:
            raise AmbiguousStructError(f"{name} is a struct of two packages")
    return "".join([_HEAD, *(_entry(name, structs[name]) for name in sorted(held)), '"""\n'])


def _fields(body: str) -> Iterator[_Field]:
    for name, type_, tags in _FIELD.findall(body):
        of = _OF_THE_PACKAGE.sub(r"v1.\1", type_.replace("metav1.", ""))
        found = _JSON.search(tags)
        if found is None or found[1] != "-":
            yield _Field(name or of.rpartition(".")[2], "" if found is None else found[1], of)


def _closure(structs: Mapping[str, Sequence[_Field]], root: str) -> set[str]:
    """Return the structs that a value may contain, and the struct itself."""
    known, left = {root}, [root]
    while left:
        held = {name for field in structs[left.pop()] for name in _NAME.findall(field.type)}
        new = (held & structs.keys()) - known - _OWN_DUMP
        known |= new
        left += new
    return known


def _entry(name: str, fields: Sequence[_Field]) -> str:
    lines = [name]
    for field in fields:
        word = _word(field)
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(" ")
        lines[-1] += f" {word}"
    return "\n".join(lines) + "\n"


def _word(field: _Field) -> str:
    follows = field.key == field.name[:1].lower() + field.name[1:]
    return f"{field.name}{'' if follows else f'={field.key}'}:{field.type}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a release's staging/src/k8s.io")
    parser.add_argument("--out", type=Path, required=True, help="protocols/go_structs.py to write")
    given = parser.parse_args(arguments)
    try:
        text = go_structs([(given.source / file).read_text(encoding="utf-8") for file in FILES])
        given.out.write_text(text, encoding="utf-8")
    except (AmbiguousStructError, OSError) as err:
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return 1
    print(f"{given.out}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
