"""PriorityLevelConfigurations (flowcontrol.apiserver.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go,
pkg/printers/internalversion/printers.go (printPriorityLevelConfiguration) (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, name_cell, part
from kcm.runtime.apiserver.rules.conditions import validate_condition_types
from kcm.runtime.apiserver.rules.names import dns_subdomain

_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_SHARES, _MOST_QUEUES, _MOST_BITS = 30, 10_000_000, 60
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def set_defaults(level: Object) -> None:
    limited, exempt = level["spec"].get("limited"), level["spec"].get("exempt")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", _SHARES)
        limited.setdefault("lendablePercent", 0)
        queuing = limited.setdefault("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, number in _QUEUING.items():
                queuing[name] = queuing.get(name) or number
    if exempt is not None:
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)


def validate(level: Object) -> list[FieldError]:
    return list(_wrong_spec(level["spec"], str(level["metadata"].get("name") or "")))


def _wrong_spec(spec: Mapping[str, Any], name: str) -> Iterator[FieldError]:
    type_, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (type_ == "Exempt") != (name == _EXEMPT) and type_ in ("Exempt", "Limited"):
        yield invalid("spec.type", type_, "must be 'Exempt' if and only if `name` is 'exempt'")
    match type_:
        case "Exempt":
            if limited is not None:
                yield forbidden("spec.limited", "must be nil if the type is not Limited")
            yield from _wrong_numbers(exempt or {}, "spec.exempt")
        case "Limited":
            if exempt is not None:
                yield forbidden("spec.exempt", "must be nil if the type is Limited")
            if limited is None:
                yield required("spec.limited", "must not be empty when type is Limited")
            else:
                yield from _wrong_numbers(limited, "spec.limited")
                borrowing = limited.get("borrowingLimitPercent")
                if borrowing is not None and borrowing < 0:
                    detail = "if specified, must be a non-negative integer"
                    yield invalid("spec.limited.borrowingLimitPercent", borrowing, detail)
                yield from _wrong_response(limited["limitResponse"], "spec.limited.limitResponse")
        case _:
            yield not_supported("spec.type", type_, ("Exempt", "Limited"))


def _wrong_numbers(limits: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    shares, percent = limits.get("nominalConcurrencyShares") or 0, limits.get("lendablePercent") or 0
    if shares < 0:
        yield invalid(f"{field}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= percent <= 100:
        yield invalid(f"{field}.lendablePercent", percent, "must be between 0 and 100, inclusive")


def _wrong_response(response: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    type_, queuing = response.get("type") or "", response.get("queuing")
    match type_:
        case "Reject":
            if queuing is not None:
                yield forbidden(f"{field}.queuing", "must be nil if limited.limitResponse.type is not Limited")
        case "Queue":
            if queuing is None:
                yield required(f"{field}.queuing", "must not be empty if limited.limitResponse.type is Limited")
            else:
                yield from _wrong_queuing(queuing, f"{field}.queuing")
        case _:
            yield not_supported(f"{field}.type", type_, ("Queue", "Reject"))


def _wrong_queuing(queuing: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    for name in ("queueLengthLimit", "queues"):
        if queuing[name] <= 0:
            yield invalid(f"{field}.{name}", queuing[name], "must be positive")
    queues, hand = queuing["queues"], queuing["handSize"]
    if queues > _MOST_QUEUES:
        yield invalid(f"{field}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield invalid(f"{field}.handSize", hand, "must be positive")
    elif hand > queues:
        yield invalid(f"{field}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _MOST_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MOST_BITS}"
        )
        yield invalid(f"{field}.handSize", hand, detail)


def _entropy_bits(deck: int, hand: int) -> int:
    """Return the bits of randomness that shuffle sharding needs to deal `hand` of `deck` queues.

    Source: apiserver pkg/util/shufflesharding, RequiredEntropyBits (v1.36).
    """
    return max(math.ceil(math.log2(deck) * hand), 1)


def prepare_for_status_update(new: Object, _old: Object) -> None:
    for condition in (new.get("status") or {}).get("conditions") or ():
        condition.setdefault("lastTransitionTime", None)  # upstream always encodes this field


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return validate_condition_types(part(new, "status"))


def cells(level: Object, now: float) -> list[Any]:
    spec = part(level, "spec")
    limited = spec.get("limited")
    queuing = part(spec, "limited", "limitResponse").get("queuing") or {}
    return [
        name_cell(level),
        spec.get("type") or "",
        NONE if limited is None else limited.get("nominalConcurrencyShares", NONE),
        *(queuing.get(what, NONE) for what in ("queues", "handSize", "queueLengthLimit")),
        age_cell(level, now),
    ]


RESOURCE = ResourceDefinition(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    plural="prioritylevelconfigurations",
    kind="PriorityLevelConfiguration",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        set_defaults=set_defaults,
        validate=validate,
        prepare_for_status_update=prepare_for_status_update,
        validate_status_update=validate_status_update,
        validate_name=dns_subdomain,
        has_generation=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Type"),
            Column("NominalConcurrencyShares"),
            Column("Queues"),
            Column("HandSize"),
            Column("QueueLengthLimit"),
            AGE,
        ),
        cells=cells,
    ),
)
