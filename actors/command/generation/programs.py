"""Specs of controllers that an argument names: "module:ATTRIBUTE" or "file.py:ATTRIBUTE"."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from kcm.actors.reconciliation.specs import ControllerSpec


class NoSpecsError(Exception):
    """An argument names no controllers. The text is for the user."""


def load_specs(name: str) -> tuple[ModuleType, tuple[ControllerSpec, ...]]:
    """Import the module, and return it with the specs. The current directory precedes others. Raises NoSpecsError."""
    path, colon, attribute = name.partition(":")
    if not path or not colon or not attribute:
        raise NoSpecsError(f"controllers are named as module:ATTRIBUTE, as in website_controller:WEBSITE, not {name!r}")
    folder, module_name = _split(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as err:  # the module may raise anything
        if isinstance(err, ModuleNotFoundError) and err.name == module_name.partition(".")[0]:
            raise NoSpecsError(f"there is no module {module_name!r} in {folder} and among the installed ones") from err
        raise NoSpecsError(f"cannot import {module_name}: {type(err).__name__}: {err}") from err
    return module, specs_in(module, attribute)


def specs_in(module: ModuleType, attribute: str) -> tuple[ControllerSpec, ...]:
    """Return the specs of an attribute: a spec, several, or a function that returns them. Raises NoSpecsError."""
    where = f"{module.__name__}:{attribute}"
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [key for key, value in vars(module).items() if isinstance(value, ControllerSpec)]
            known = f"; it has {', '.join(names)}" if names else ""
            raise NoSpecsError(f"{module.__name__} has no {attribute!r}{known}")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, ControllerSpec):
        try:
            found = found()
        except Exception as err:
            raise NoSpecsError(f"{where}() raises {type(err).__name__}: {err}") from err
    specs: Any = (found,) if isinstance(found, ControllerSpec) else found
    if not isinstance(specs, tuple | list) or not specs or not all(isinstance(each, ControllerSpec) for each in specs):
        raise NoSpecsError(
            f"{where} is a ControllerSpec, a tuple of them, or a function without arguments, not {found!r:.80}"
        )
    return tuple(specs)


def _split(path: str) -> tuple[str, str]:
    """Return the folder to import from, and the name of the module."""
    if path.endswith(".py") or "/" in path:
        file = Path(path)
        return str(file.parent.resolve()), file.name.removesuffix(".py")
    return str(Path.cwd()), path
