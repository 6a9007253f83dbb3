"""Generate api_types.json and protocols/semantic_facts.py from a server or from the files of a Kubernetes release.

    … --openapi-dir kubernetes/api/openapi-spec/v3 --protos kubernetes/staging/src/k8s.io --out FILE
    … --server https://127.0.0.1:6443 --token TOKEN --ca-file FILE --protos kubernetes/staging/src/k8s.io --out FILE

The server must serve all API groups: --runtime-config=api/all=true --feature-gates=AllAlpha=true,AllBeta=true.
--protos may also be an earlier api_types.json. Its protobuf facts are copied, so that the output differs from that file
only where the types of the server do.
"""

from __future__ import annotations

import argparse
import json
import ssl
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kcm.runtime.apiserver.schema.generate.documents import (
    Facts,
    Json,
    NoTypesError,
    UnknownVocabularyError,
    collect,
    read_directory,
    read_server,
)
from kcm.runtime.apiserver.schema.generate.layout import written
from kcm.runtime.apiserver.schema.generate.semantic import AmbiguousTypeError, semantic_facts
from kcm.runtime.apiserver.schema.generate.sources import MismatchError, Sources
from kcm.runtime.schema.api_types import ApiTypes

_PROTOBUF_FACTS = ("pointer", "number")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m kcm.runtime.apiserver.schema.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    documents = parser.add_mutually_exclusive_group(required=True)
    documents.add_argument("--openapi-dir", type=Path, help="a release's api/openapi-spec/v3")
    documents.add_argument("--server", help="URL of a kube-apiserver")
    parser.add_argument("--token", default="", help="bearer token for the server")
    parser.add_argument("--ca-file", type=Path, help="CA certificates for verifying the server's certificate")
    parser.add_argument(
        "--protos", type=Path, required=True, help="a release's staging/src/k8s.io, or an earlier api_types.json"
    )
    parser.add_argument("--out", type=Path, required=True, help="api_types.json to write")
    parser.add_argument("--semantic-out", type=Path, help="protocols/semantic_facts.py to write")
    given = parser.parse_args(arguments)
    try:
        print(generate(given))
    except (AmbiguousTypeError, MismatchError, NoTypesError, UnknownVocabularyError, OSError) as err:
        print(f"{type(err).__name__}: {err}", file=sys.stderr)
        return 1
    return 0


def generate(given: argparse.Namespace) -> str:
    """Write the output files, and return a summary for the terminal. given: the parsed command line."""
    if given.server:
        context = ssl.create_default_context(cafile=given.ca_file) if given.server.startswith("https:") else None
        found: Iterable[Json] = read_server(given.server, token=given.token, context=context)
    else:
        found = read_directory(given.openapi_dir)
    types, kinds = collect(found)
    if given.protos.is_dir():
        sources = Sources(given.protos)
        for name, facts in types.items():
            sources.complete(name, facts)
    else:
        copy_protobuf_facts(types, json.loads(given.protos.read_bytes())["types"])
    given.out.write_text(written(types, kinds), encoding="utf-8")
    if given.semantic_out is not None:
        given.semantic_out.write_text(semantic_facts(ApiTypes(given.out.read_bytes())), encoding="utf-8")
    fields = sum(len(facts.get("fields", ())) for facts in types.values())
    return f"{given.out}: {len(types)} types, {fields} fields, {len(kinds)} kinds"


def copy_protobuf_facts(types: Mapping[str, Facts], former: Mapping[str, Facts]) -> None:
    """Copy the protobuf facts ("pointer", "number") of each field to `types`. former: types of an earlier file."""
    for name, facts in types.items():
        known = former.get(name, {}).get("fields", {})
        for field, of_field in facts.get("fields", {}).items():
            of_field |= {word: known[field][word] for word in _PROTOBUF_FACTS if word in known.get(field, ())}


if __name__ == "__main__":
    sys.exit(main())
