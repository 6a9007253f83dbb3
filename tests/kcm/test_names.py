"""Public names are grouped by module, typed, imported on first use, and documented."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import kcm
import kcm.testing

ROOT = Path(__file__).parents[2]
GROUPS = (
    "clusters",
    "commands",
    "manager",
    "manifests",
    "metrics",
    "objects",
    "outcomes",
    "specs",
    "steps",
    "tables",
    "webhooks",
)
PAGES = {f"kcm.{group}": "docs/embedding.md" for group in GROUPS} | {"kcm": "docs/embedding.md"}
PAGES["kcm.testing"] = "docs/testing.md"
LAZY = ("kcm.clusters", "kcm.manager", "kcm.manifests", "kcm.testing")
FORMER = {"CommandFailed": "kcm.outcomes:CommandError", "InvalidOptions": "kcm.manager:InvalidOptionsError"}


def seen_by_type_checkers(module: str) -> dict[str, str]:
    """Return "module:attribute" for each name that the TYPE_CHECKING block imports."""
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        imported.asname or imported.name: f"{node.module}:{imported.name}"
        for node in imports
        for imported in node.names
    }


def imported_when_used(module: str) -> dict[str, str]:
    """Return "module:attribute" for each name of the lazy table, without former names."""
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    table: dict[str, str] = ast.literal_eval(call.args[1])
    return {name: place for name, place in table.items() if name not in FORMER}


@pytest.mark.parametrize("module", LAZY)
def test_the_lazy_table_the_type_checkers_imports_and_all_agree(module: str) -> None:
    lazy = imported_when_used(module)
    assert lazy == seen_by_type_checkers(module)
    assert sorted(import_module(module).__all__) == sorted(lazy)


@pytest.mark.parametrize("group", GROUPS)
def test_every_name_of_a_group_is_still_a_name_of_the_package(group: str) -> None:
    module = import_module(f"kcm.{group}")
    assert getattr(kcm, group) is module
    assert [name for name in module.__all__ if getattr(kcm, name) is not getattr(module, name)] == []


def test_the_most_frequent_names_are_also_in_a_group() -> None:
    grouped = [name for group in GROUPS for name in import_module(f"kcm.{group}").__all__]
    assert len(grouped) == len(set(grouped)), "a name is in one group"
    assert set(kcm.__all__) <= {*grouped, *GROUPS}
    assert set(grouped) & set(kcm.testing.__all__) == set()


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_still_works(name: str) -> None:
    module, _, present = FORMER[name].partition(":")
    assert getattr(kcm, name) is getattr(import_module(module), present)


@pytest.mark.parametrize("module", PAGES)
def test_every_public_name_exists_and_is_listed_by_dir(module: str) -> None:
    loaded = import_module(module)
    assert [name for name in loaded.__all__ if getattr(loaded, name) is None] == []
    assert set(loaded.__all__) <= set(dir(loaded))


@pytest.mark.parametrize("module, page", PAGES.items())
def test_every_public_name_is_in_the_docs(module: str, page: str) -> None:
    documented = (ROOT / page).read_text(encoding="utf-8").partition("\n## Public names\n")[2]
    names = [name for name in import_module(module).__all__ if name not in GROUPS]
    assert [name for name in names if f"`{name}`" not in documented] == []
    if module != "kcm":
        assert f"`{module}`" in documented or page == "docs/testing.md"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kcm' has no attribute 'Controler'"):
        _ = kcm.Controler  # type: ignore[attr-defined]


def test_a_star_import_brings_all_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from kcm import *", namespace)
    assert set(kcm.__all__) <= set(namespace)


def test_the_simulator_is_a_module_that_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kcm.simulate", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: python -m kcm.simulate ")


def test_the_package_has_the_version_of_its_installation() -> None:
    assert kcm.__version__ == version("kcm")
