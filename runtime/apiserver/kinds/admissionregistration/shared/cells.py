"""Table columns and cells of webhook configurations, admission policies and their bindings.

The mutating and the validating kind of each share one table.

Source: kubernetes pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, number
from kcm.runtime.apiserver.rules.cells import UNSET, age_cell, items, name_cell, part, selector_cell


def _webhook_cells(configuration: Object, now: float) -> list[Any]:
    return [name_cell(configuration), len(items(configuration, "webhooks")), age_cell(configuration, now)]


def policy_cells(policy: Object, now: float) -> list[Any]:
    spec = part(policy, "spec")
    rules = items(spec, "validations") or items(spec, "mutations")
    kind = spec.get("paramKind")
    named = UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"
    return [name_cell(policy), len(rules), named, age_cell(policy, now)]


def _policy_binding_cells(binding: Object, now: float) -> list[Any]:
    spec = part(binding, "spec")
    reference, named = part(spec, "paramRef"), UNSET
    if reference.get("name"):
        named = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        named = selector_cell(reference["selector"])
    return [name_cell(binding), spec.get("policyName") or "", named, age_cell(binding, now)]


WEBHOOKS = Printer(columns=(NAME, number("Webhooks"), AGE), cells=_webhook_cells)
POLICY_BINDING = Printer(columns=(NAME, Column("PolicyName"), Column("ParamRef"), AGE), cells=_policy_binding_cells)
