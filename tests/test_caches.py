"""Caches whose keys are chosen by clients are bounded by size: see protocols/bounded_cache.py."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Caches that are bounded only by count, or not at all, with the reason why their keys are short and few.
BY_COUNT = {
    "actors/controllers/workloads/statefulset/identity.py": "names and keys of objects, which the server validates",
    "actors/hollow/nodes/addresses.py": "a node's podCIDRs, which the server validates; other texts raise an error",
    "actors/hollow/scheduler/demand.py": "quantities of at most 128 characters; longer ones raise an error",
    "actors/reconciliation/forgotten_steps.py": "files of the program",
    "protocols/bounded_cache.py": "it is what bounds the others",
    "protocols/discovery/documents.py": "two answers of the server",
    "protocols/go_dump.py": "no argument",
    "protocols/hashing.py": "templates of at most 16 KiB",
    "protocols/messages/discovery.py": "resources of discovery documents, whose names the server validates",
    "protocols/models.py": "classes of the program",
    "protocols/quantities.py": "at most 128 characters; longer ones raise an error",
    "protocols/selectors.py": "valid label keys and values; others raise an error",
    "protocols/semantic.py": "types of Kubernetes",
    "protocols/times.py": "numbers",
    "runtime/apiserver/admission/pod_security/admission.py": "the server's own configuration",
    "runtime/apiserver/admission/policies/configured.py": "stored policies, which have to stay compiled",
    "runtime/apiserver/admission/webhooks/configured.py": "the stored configurations, four times at most",
    "runtime/http/server/response_writer.py": "statuses and media types of the server",
    "runtime/apiserver/http/metrics.py": "resources that are served",
    "runtime/apiserver/kinds/metrics/pod_metrics.py": "lives for one request",
    "runtime/apiserver/kinds/metrics/shared/objects.py": "numbers",
    "runtime/apiserver/kinds/pod_spec/usage.py": "resource names and quantities of stored pods, which are validated",
    "runtime/schema/api_types.py": "no argument",
    "runtime/apiserver/schema/inner_forms.py": "no argument",
    "runtime/apiserver/schema/merge_schemas.py": "kinds that are served",
    "runtime/apiserver/schema/merge_types.py": "types of Kubernetes, or no argument",
    "runtime/apiserver/schema/protobuf_encoder.py": "kinds of Kubernetes, numbers of their fields",
    "protocols/protobuf_wire.py": "numbers of fields",
    "runtime/apiserver/schema/scalars.py": "quantities of at most 128 characters; longer ones raise an error",
    "runtime/apiserver/schema/kind_checks.py": "no argument",
    "runtime/apiserver/storage/sizes.py": "no argument",
    "runtime/apiserver/storage/sqlite_store.py": "numbers of rows",
    "runtime/cel/admission.py": "booleans",
    "runtime/cel/devices.py": "no argument",
    "runtime/cel/language.py": "no argument",
    "runtime/scheduling/cron_times.py": "numbers",
    "runtime/simulation/keys.py": "no argument",
}


def test_cache_bounded_only_by_count_has_a_reason() -> None:
    # A client that chooses the keys of a cache also determines how much memory a thousand entries need.
    found = {
        str(path.relative_to(ROOT))
        for package in ("actors", "kcm", "protocols", "runtime")
        for path in (ROOT / package).rglob("*.py")
        if "actors/simulation/" not in str(path) and _has_cache(path.read_text())
    }
    assert found == BY_COUNT.keys()


def _has_cache(source: str) -> bool:
    names = ("cache", "lru_cache")
    if not any(name in source for name in names):
        return False  # parsing all files takes seconds
    return any(
        (isinstance(node, ast.ImportFrom) and node.module == "functools" and any(a.name in names for a in node.names))
        or (isinstance(node, ast.Attribute) and ast.unparse(node) in ("functools.cache", "functools.lru_cache"))
        for node in ast.walk(ast.parse(source))
    )
