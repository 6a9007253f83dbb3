"""Modules that an import loads, measured in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
HEAVY = (
    "aiohttp",
    "cryptography",
    "sqlite3",
    "prometheus_client",
    "kubernetes",
    "yaml",
    "jwt",
    "pycurl",
    "opentelemetry",
    "kcm.runtime.apiserver",
)


def imported_with(*modules: str) -> set[str]:
    """Return the names of all modules that are loaded after an import of these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,  # a process that measures coverage imports much itself
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "modules",
    [
        ("kcm.actors",),
        ("kcm.runtime", "kcm.protocols"),
        ("kcm.protocols.codec", "kcm.protocols.objects", "kcm.protocols.resources"),
        ("kcm.actors.options", "kcm.runtime.flags.declaration"),
        ("kcm.actors.app.arguments", "kcm.actors.controllers.built_in"),
        (
            "kcm.actors.reconciliation",
            "kcm.actors.engine.controller",
            "kcm.actors.engine.informer",
            "kcm.actors.engine.dispatcher",
        ),
        ("kcm.actors.engine.manager", "kcm.actors.engine.elector", "kcm.actors.engine.event_recorder"),
        ("kcm.runtime.metrics.registry", "kcm.runtime.metrics.meters", "kcm.runtime.logs.configuration"),
        ("kcm.runtime.client", "kcm.runtime.serving", "kcm.runtime.simulation"),
    ],
    ids=" ".join,
)
def test_light_modules_load_no_heavy_library(modules: tuple[str, ...]) -> None:
    imported = imported_with(*modules)
    assert imported.issuperset(modules)
    assert [heavy for heavy in HEAVY if heavy in imported] == []


def test_reading_flags_loads_neither_actors_nor_logs() -> None:
    imported = imported_with("kcm.actors.options")
    assert [name for name in ("pykka", "structlog", "msgpack", "asyncio") if name in imported] == []


@pytest.mark.parametrize("module", ["kcm", "kcm.testing"])
def test_public_modules_import_nothing_before_a_name_is_used(module: str) -> None:
    imported = imported_with(module)
    first_party = {name for name in imported if name.partition(".")[0] in ("kcm", "actors", "runtime", "protocols")}
    assert first_party == {"kcm", "kcm._lazy", module}
    assert {name.partition(".")[0] for name in imported - imported_with("typing", "pkgutil")} == {"kcm"}


def test_pytest_plugin_loads_no_heavy_library() -> None:
    imported = imported_with("kcm.pytest_plugin")
    guests = {"pykka", "structlog", "msgpack", *HEAVY} - {"kcm.runtime.apiserver"}  # of which it starts the process
    assert guests & imported == set()


def imported_by_command(*arguments: str) -> set[str]:
    """Return the modules that run-kcm loads with these arguments."""
    run = f"from kcm.actors.command.run_kcm import main; main({list(arguments)!r})"
    code = f"import sys; {run}; print(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def first_party(imported: set[str]) -> set[str]:
    return {name for name in imported if name.partition(".")[0] in ("kcm", "actors", "runtime", "protocols")}


def besides_controllers(imported: set[str]) -> set[str]:
    """Return the modules that all controllers need, whose number adds to the start time.

    The number of controllers grows, and with it that of the objects in protocols. The package itself does not count.
    """
    below = first_party(imported) - {"kcm", "kcm._lazy"}
    return {name for name in below if not name.startswith(("kcm.actors.controllers.", "kcm.protocols."))}


@pytest.mark.parametrize("asked", ["--version", "--version=raw"])
def test_version_is_printed_before_anything_is_imported(asked: str) -> None:
    command = {"kcm", "kcm._lazy", "kcm.actors", "kcm.actors.command", "kcm.actors.command.run_kcm"}
    assert first_party(imported_by_command(asked)) == {
        *command,
        "kcm.runtime",
        "kcm.runtime.process",
        "kcm.runtime.process.version",
        "kcm.runtime.process.distributions",
    }


def test_help_loads_the_specs_of_controllers_only() -> None:
    imported = imported_by_command("--help")
    assert [name for name in (*HEAVY, "structlog", "asyncio", "ssl") if name in imported] == []
    assert "kcm.actors.command.run" not in imported
    assert len(besides_controllers(imported)) < 90  # 81 when it was measured


def test_run_without_serving_loads_no_server() -> None:
    imported = imported_with("kcm.actors.command.run")
    late = (
        "httptools",
        "cryptography",
        "prometheus_client",
        "kcm.actors.app.serving",
        "kcm.actors.faults",
        "difflib",
    )
    assert [name for name in late if name in imported] == []
    assert not {name for name in imported if name.startswith("kcm.actors.command.journal.")}
    assert len(besides_controllers(imported)) < 210  # 200 when it was measured


def test_serving_loads_no_metrics_library_before_the_first_scrape() -> None:
    imported = imported_with("kcm.actors.app.serving")
    assert {"kcm.runtime.serving.site", "cryptography"} <= imported
    assert [name for name in ("prometheus_client", "http.server", "email.message") if name in imported] == []


def test_console_is_loaded_only_if_it_is_served() -> None:
    imported = imported_with("kcm.actors.command.program_pages", "kcm.actors.command.run")
    assert not [name for name in imported if name.startswith(("kcm.runtime.serving.console", "kcm.actors.console"))]


def test_system_and_hollow_nodes_load_no_controllers_of_their_own() -> None:
    imported = imported_with("kcm.actors.hollow.process", "kcm.actors.app.system")
    assert "kcm.actors.controllers.built_in" not in imported
    assert len(first_party(imported)) < 345  # 324 when it was measured, and 600 with the built-in controllers


def test_start_loads_only_the_modules_it_needs() -> None:
    imported = imported_with("kcm.actors.command.run_kcm", "kcm.actors.controllers.built_in", "kcm.actors.command.run")
    idle = {
        "importlib.metadata",
        "email",
        "rich",
        "pygments",
        "zipfile",
        "prometheus_client",
        "cryptography",
        "aiohttp",
        "yaml",
        "tempfile",
        "shutil",
        "bz2",
        "lzma",
        "zoneinfo",
        "sysconfig",
        "calendar",
    }
    assert idle & imported == set()


def test_few_dataclass_methods_are_generated_at_start() -> None:
    # The generation of a method takes as long as the rest of its class, and most methods are never called.
    code = """
import builtins, dataclasses
written = 0
def count(*of):
    global written
    written += 1
    builtins.exec(*of)
dataclasses.exec = count
import kcm.actors.command.run_kcm, kcm.actors.controllers.built_in, kcm.actors.command.run
print(written)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 120  # 1,400 with the standard library's decorator


def test_modules_have_no_import_cycles_even_for_types() -> None:
    # The graph of import-linter, which contains the imports for types only and those inside functions. After bin/check,
    # as in bin/run-tests, it is in the cache.
    graph = grimp.build_graph("kcm", include_external_packages=True, cache_dir=str(ROOT / ".import_linter_cache"))
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert imports["kcm.protocols.messages.commands"] >= {"kcm.protocols.messages.outcomes"}
    TopologicalSorter(imports).prepare()  # raises CycleError
