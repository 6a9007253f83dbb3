"""Controllers of other packages, which are installed under the entry-point group `kcm.controllers`.

An entry point names a ControllerSpec, or several of them in a tuple or list. In its package's pyproject.toml:

    [project.entry-points."kcm.controllers"]
    website = "website_controller:WEBSITE"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options.known_controllers import flags_of_controllers
from kcm.actors.options.table import all_flags
from kcm.actors.reconciliation.derived import indexes_of
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.process.distributions import may_have_entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "kcm.controllers"


class Installed(Struct, frozen=True):
    """Installed controllers.

    specs: controllers that can run.
    troubles: one line for each controller that cannot.
    """

    specs: tuple[ControllerSpec, ...]
    troubles: tuple[str, ...]


def installed_controllers(others: Iterable[ControllerSpec] = BUILT_IN) -> Installed:
    """Import all installed controllers. A broken package is reported in `troubles`, and does not affect the others.

    others: controllers whose names, aliases, flags and indexes an installed controller must not use.
    """
    if not may_have_entry_points(GROUP):
        return Installed((), ())
    from importlib.metadata import entry_points  # heavy

    return load_controllers(entry_points(group=GROUP), others)


def load_controllers(points: Iterable[EntryPoint], others: Iterable[ControllerSpec]) -> Installed:
    """Load the controllers of these entry points, in the order of their names."""
    known = list(others)
    specs: list[ControllerSpec] = []
    troubles: list[str] = []
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            found = _specs_of(point)
        except (Exception, SystemExit) as err:  # importing another package's module may raise any error
            why = " ".join(f"{type(err).__name__}: {err}".split())
            troubles.append(f"{_where(point)} is left out: {why}")
            continue
        for spec in found:
            clash = _clash(spec, known)
            if clash is not None:
                troubles.append(f"{_where(point)} is left out: {clash}")
                continue
            known.append(spec)
            specs.append(spec)
    return Installed(tuple(specs), tuple(troubles))


def _clash(spec: ControllerSpec, known: Sequence[ControllerSpec]) -> str | None:
    """Return why the spec conflicts with a known controller, or None if it does not."""
    used = {name for other in known for name in (other.name, *other.aliases)}
    name = next((name for name in (spec.name, *spec.aliases) if name in used), None)
    if name is not None:
        return f"the name {name!r} is taken"
    clusters = {resource.cluster for resource in spec.resources if resource.cluster}
    if clusters:
        return f"it works on the clusters {', '.join(sorted(clusters))}: run it as a program of its own, with kcm.main"
    try:
        all_flags(flags_of_controllers((*known, spec)))
        indexes_of([*known, spec])
    except ValueError as err:
        return str(err)
    return None


def _specs_of(point: EntryPoint) -> tuple[ControllerSpec, ...]:
    loaded = point.load()
    found = tuple(loaded) if isinstance(loaded, tuple | list) else (loaded,)
    for spec in found:
        if not isinstance(spec, ControllerSpec):
            raise TypeError(f"expected a ControllerSpec, got {type(spec).__name__}")
    return found


def _where(point: EntryPoint) -> str:
    return f"controller {point.name} ({point.value})"
