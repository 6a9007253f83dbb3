"""The public names: one table, said in three ways that Python and type checkers need, and documented."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kcm
import kcm.testing

ROOT = Path(__file__).parents[2]
MODULES = {"kcm": "docs/embedding.md", "kcm.testing": "docs/testing.md"}


def seen_by_type_checkers(module: str) -> dict[str, str]:
    """Each name of the TYPE_CHECKING block: "module:attribute"."""
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {one.asname or one.name: f"{node.module}:{one.name}" for node in imports for one in node.names}


def imported_when_used(module: str) -> dict[str, str]:
    """Each name of the lazy table: "module:attribute"."""
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    table: dict[str, str] = ast.literal_eval(call.args[1])
    return table


@pytest.mark.parametrize("module", MODULES)
def test_the_lazy_table_the_type_checkers_imports_and_all_agree(module: str) -> None:
    lazy = imported_when_used(module)
    assert lazy == seen_by_type_checkers(module)
    assert sorted(import_module(module).__all__) == sorted(lazy)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists_and_is_listed_by_dir(module: str) -> None:
    loaded = import_module(module)
    assert [name for name in loaded.__all__ if getattr(loaded, name) is None] == []
    assert set(loaded.__all__) <= set(dir(loaded))


@pytest.mark.parametrize("module, page", MODULES.items())
def test_every_public_name_is_in_the_docs(module: str, page: str) -> None:
    documented = (ROOT / page).read_text(encoding="utf-8").partition("\n## Public names\n")[2]
    assert [name for name in import_module(module).__all__ if f"`{name}`" not in documented] == []


def test_a_name_is_public_in_one_module_only() -> None:
    assert set(kcm.__all__) & set(kcm.testing.__all__) == set()


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
