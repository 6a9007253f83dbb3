"""Modules of a project: their files, and their import after a change."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module, invalidate_caches
from pathlib import Path

from kcm.actors.command.generation.programs import NoSpecsError, load_specs, specs_in
from kcm.actors.reconciliation.specs import ControllerSpec

FOREIGN = frozenset({"site-packages", "dist-packages", ".venv", "venv", ".git", "__pycache__"})


class ReloadError(Exception):
    """Changed files cannot be imported, and the code before the change is still loaded. The text has the traceback."""


class Project:
    """The modules below the folder of an operator's module.

    specs: as of the last successful import.
    """

    def __init__(self, name: str) -> None:
        """Import the module. name: "module:ATTRIBUTE". Raises NoSpecsError."""
        # Compiled files are compared by the second: a file that changes twice in one would not be read again.
        sys.dont_write_bytecode = True
        module, self.specs = load_specs(name)
        self._module, self._attribute = module.__name__, name.partition(":")[2]
        self._folder = Path(module.__file__ or ".").resolve().parent
        self._stamps = self._stamps_now()

    def modules(self) -> dict[str, Path]:
        """Return the loaded modules of the project, with their files."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is None or not file.endswith(".py"):
                continue
            path = Path(file).resolve()
            if path.is_relative_to(self._folder) and FOREIGN.isdisjoint(path.relative_to(self._folder).parts):
                found[name] = path
        return found

    def changed(self) -> list[str]:
        """Return the modules whose files have changed since the last call or import."""
        before, self._stamps = self._stamps, self._stamps_now()
        return sorted(name for name, stamp in self._stamps.items() if before.get(name, stamp) != stamp)

    def reload(self) -> None:
        """Import all modules of the project again. Raises ReloadError, after which the former modules are loaded."""
        kept = {name: sys.modules[name] for name in self.modules()}
        try:
            for name, path in self.modules().items():
                if name in kept:
                    compile(path.read_bytes(), str(path), "exec")
            for name in kept:
                del sys.modules[name]
            invalidate_caches()
            self.specs = specs_in(import_module(self._module), self._attribute)
        except (Exception, SystemExit) as err:  # a module may raise anything
            for name in self.modules():
                sys.modules.pop(name, None)
            sys.modules.update(kept)
            raise ReloadError(_why(err)) from err
        self._stamps = self._stamps_now()

    def affected(self, changed: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the controllers whose code is in these modules, or uses them."""
        changed, modules = set(changed), self.modules()
        return tuple(spec.name for spec in self.specs if not changed.isdisjoint(_used(spec, modules)))

    def _stamps_now(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for name, path in self.modules().items():
            try:
                status = path.stat()
            except OSError:  # while an editor replaces it
                continue
            stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps


def _used(spec: ControllerSpec, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the project that a spec's functions come from, and those that these import."""
    functions = [spec.build, *(watch.to for watch in spec.watches), *(queue.reconcile for queue in spec.queues)]
    functions += [periodic.run for periodic in spec.passes]
    todo = [name for name in (getattr(function, "__module__", "") for function in functions) if name in modules]
    used: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in used:
            used.add(name)
            todo += [other for other in _imported(name, modules[name]) if other in modules]
    return used or {*modules}


def _imported(module: str, file: Path) -> set[str]:
    """Return the names of the modules that the import statements of a file may mean."""
    found: set[str] = set()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*parents, node.module or ""]))
            found.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    return found


def _why(err: BaseException) -> str:
    if isinstance(err, NoSpecsError):
        cause = err.__cause__
        return _why(cause) if cause is not None else str(err)
    if isinstance(err, SyntaxError):
        return "".join(traceback.format_exception_only(err)).rstrip()
    frames = [frame for frame in traceback.extract_tb(err.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.endswith(("modules.py", "programs.py"))]
    return "".join([*traceback.format_list(own), *traceback.format_exception_only(err)]).rstrip()
