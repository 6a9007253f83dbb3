"""The examples of the API reference run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_module_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert examples
    for number, code in enumerate(examples, 1):
        module = ModuleType(f"example_{number}_of_{page.stem}")
        monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look for the module of a class
        exec(compile(code, str(page), "exec"), vars(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_imports_names_of_its_module(page: Path) -> None:
    assert re.search(rf"^from kcm\.{page.stem} import ", page.read_text(encoding="utf-8"), re.MULTILINE)
