"""Controllers of other packages: what is installed under the entry-point group `kcm.controllers`.

An entry point names a ControllerSpec, or several of them in a tuple or list. In its package's pyproject.toml:

    [project.entry-points."kcm.controllers"]
    website = "website_controller:WEBSITE"
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from actors.controllers.built_in import BUILT_IN
from actors.controllers.unbuilt import UNBUILT
from actors.options.controller_names import Named
from actors.reconciliation.specs import ControllerSpec

GROUP = "kcm.controllers"


@dataclass(frozen=True, slots=True)
class Installed:
    """specs: those that can be run. troubles: one line for each that cannot."""

    specs: tuple[ControllerSpec, ...]
    troubles: tuple[str, ...]


def installed_controllers(taken: Iterable[Named] = (*BUILT_IN, *UNBUILT)) -> Installed:
    """Import all that is installed. A broken package is a trouble told, and nothing to the others.

    taken: names that no controller of another package may have, nor have as an alias.
    """
    return load_controllers(entry_points(group=GROUP), taken)


def load_controllers(points: Iterable[EntryPoint], taken: Iterable[Named]) -> Installed:
    """As installed_controllers, of these entry points, in the order of their names."""
    used = {name for one in taken for name in (one.name, *one.aliases)}
    specs: list[ControllerSpec] = []
    troubles: list[str] = []
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            found = _specs_of(point)
        except (Exception, SystemExit) as err:  # whatever a stranger's module does while it is imported
            why = " ".join(f"{type(err).__name__}: {err}".split())
            troubles.append(f"{_where(point)} is left out: {why}")
            continue
        for spec in found:
            clash = next((name for name in (spec.name, *spec.aliases) if name in used), None)
            if clash is not None:
                troubles.append(f"{_where(point)} is left out: the name {clash!r} is taken")
                continue
            used |= {spec.name, *spec.aliases}
            specs.append(spec)
    return Installed(tuple(specs), tuple(troubles))


def _specs_of(point: EntryPoint) -> tuple[ControllerSpec, ...]:
    loaded = point.load()
    found = tuple(loaded) if isinstance(loaded, tuple | list) else (loaded,)
    for one in found:
        if not isinstance(one, ControllerSpec):
            raise TypeError(f"expected a ControllerSpec, got {type(one).__name__}")
    return found


def _where(point: EntryPoint) -> str:
    return f"controller {point.name} ({point.value})"
