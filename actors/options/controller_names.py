"""Names of controllers on the command line: aliases, and what --controllers switches on.

The controllers themselves are listed elsewhere: by the specs of those that are built, and by
kcm.actors.controllers.unbuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class Named(Protocol):
    """name: canonical, as logs and health checks have it. aliases: what --controllers takes for it as well."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def on_by_default(self) -> bool: ...


def aliases_of(controllers: Iterable[Named]) -> dict[str, str]:
    """Alias → canonical name. Raises ValueError if two controllers claim one."""
    controllers = tuple(controllers)
    canonical = {controller.name for controller in controllers}
    known: dict[str, str] = {}
    for controller in controllers:
        for alias in controller.aliases:
            if alias in known or alias in canonical:
                raise ValueError(f"the alias {alias!r} of {controller.name} is taken")
            known[alias] = controller.name
    return known


def is_enabled(name: str, chosen: Sequence[str], *, on_by_default: bool) -> bool:
    """Whether a controller runs, by the --controllers list with its aliases resolved: the first item that names it
    decides, else "*".

    Source: kubernetes v1.36 staging/src/k8s.io/controller-manager/app/helper.go, IsControllerEnabled.
    """
    star = False
    for item in chosen:
        if item == name:
            return True
        if item == f"-{name}":
            return False
        star = star or item == "*"
    return star and on_by_default
