"""Links, files, modules and flags in the documentation exist, and no file names a path of a developer's machine."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[1]
INTERNAL = ("actors/", "runtime/", "protocols/")  # folders of packages that are imported as kcm.actors, …
PACKAGES = ("kcm", "actors", "runtime", "protocols")
ROOMS = (*PACKAGES, "tests", "docs", "examples", "bin", ".ci", ".github")
# In addition, all folders whose names end in _cache or .egg-info.
MADE_HERE = {".git", ".venv", ".venvs", ".kcm", "build", "dist", "__pycache__"}
ENTRY_POINTS = {"kcm.controllers", "kcm.cloud_providers"}  # groups, which look like modules

# Records of the past name files of their time.
DATED = ("CHANGELOG.md", "docs/decisions/")


@cache
def files() -> tuple[str, ...]:
    """Return all files of the project, as paths relative to its root."""
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in walk(ROOT)))


def walk(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if path.is_symlink():
            continue  # kcm/actors and its like lead to folders that are walked themselves
        if path.name in MADE_HERE or path.name.endswith(("_cache", ".egg-info")) or path.name == ".hypothesis":
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


def pages() -> list[str]:
    return [name for name in files() if name.endswith(".md")]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def in_code_font(text: str) -> list[str]:
    """Return the text in backticks outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def made_by(page: str) -> set[str]:
    """Return the files whose content a page shows below their name."""
    return set(re.findall(r"^`([\w/.]+)`:\n\n```", read(page), re.MULTILINE))


def modules_made_by(page: str) -> set[str]:
    paths = {f"kcm/{path}" if path.startswith(INTERNAL) else path for path in made_by(page)}
    return {path.removesuffix(".py").replace("/", ".") for path in paths}


def anchors(page: str) -> set[str]:
    """Return the URL fragments of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_have_targets(page: str) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        meant = (ROOT / page).parent / path if path else ROOT / page
        if not meant.exists() or (fragment and fragment not in anchors(meant.resolve().relative_to(ROOT).as_posix())):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith(DATED)])
def test_files_named_in_a_page_exist(page: str) -> None:
    named = {word for code in in_code_font(read(page)) for word in code.split() if "<" not in word} - made_by(page)
    paths = {word.rstrip(".,:/") for word in named if word.startswith(tuple(f"{room}/" for room in ROOMS))}
    missing = [path for path in paths if not list(ROOT.glob(path))]
    modules = {word for word in named - paths if re.fullmatch(r"[\w/]+\.py", word)}
    missing += [name for name in modules if not any(f"/{file}".endswith(f"/{name}") for file in files())]
    assert missing == []


@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith(DATED)])
def test_modules_named_in_a_page_exist(page: str) -> None:
    text = read(page)
    of_ours = "|".join(PACKAGES)
    named = {code for code in in_code_font(text) if re.fullmatch(rf"(?:{of_ours})(?:\.\w+)+", code)}
    named |= set(re.findall(rf"python -m ((?:{of_ours}|tests)(?:\.\w+)+)", text))
    named -= set(re.findall(r'"(kcm\.[\w.]+)"', read("actors/engine/spans.py")))  # attributes of spans
    assert [name for name in named - ENTRY_POINTS if not is_there(name)] == []


def is_there(name: str) -> bool:
    """Report whether a dotted name is a module, or an attribute of one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", pages())
def test_python_in_a_page_compiles_and_imports_existing_public_names(page: str) -> None:
    if page.startswith(DATED):
        return
    for block in re.findall(r"^```python\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(PACKAGES):
                continue
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name for name in names if not any(name.startswith(made) for made in modules_made_by(page))]
            assert [name for name in names if not is_there(name)] == []


@pytest.mark.parametrize("package", ["actors", "runtime", "protocols"])
def test_package_map_lists_every_subpackage(package: str) -> None:
    described = import_module(f"kcm.{package}").__doc__ or ""
    inside = [path for path in (ROOT / package).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    rooms = {path.name if path.suffix else f"{path.name}/" for path in inside} - {"__init__.py"}
    assert [room for room in sorted(rooms) if room not in described] == []
    named = set(re.findall(r"(?<![\w/])[a-z_]+(?:/(?=[ \n])|\.py)", described))
    assert [name for name in sorted(named - rooms) if not list((ROOT / package).rglob(name))] == []


@pytest.mark.parametrize("package", ["actors", "runtime"])
def test_diagram_of_packages_shows_the_layers_of_the_contracts(package: str) -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    layers = contracts[f"importlinter:contract:floors-of-{package}"]["layers"].split("\n")
    picture = read("docs/architecture.md").partition("## Packages")[2].split("```")[1]
    lines = picture.partition(f"\n {package} ")[2].partition("\n  │\n")[0].splitlines()
    shown = [set(re.split(r" {3,}", line.strip(" │"))[0].split(" · ")) for line in lines]
    assert shown == [set(layer.split(" | ")) for layer in layers if layer]


def test_diagram_of_data_names_existing_classes() -> None:
    picture = read("docs/architecture.md").partition("## Data flow")[2].split("```")[1]
    code = "\n".join(read(file) for file in files() if file.endswith(".py") and file.startswith(PACKAGES))
    named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", picture))
    assert len(named) > 20
    assert [name for name in sorted(named) if not re.search(rf"^class {name}\b", code, re.MULTILINE)] == []


def test_decisions_are_dated_and_listed_in_order() -> None:
    records = [name for name in files() if re.match(r"docs/decisions/\d", name)]
    for record in records:
        assert read(record).startswith(f"# {Path(record).name[:10]}: ")
    listed = re.findall(r"^- \[.+\]\((.+)\)$", read("docs/decisions/README.md"), re.MULTILINE)
    assert [f"docs/decisions/{name}" for name in listed] == records


def test_readme_and_testing_page_name_the_same_gaps() -> None:
    lists = [
        re.findall(r"^(- \*\*.*?)\n\n", read(page).partition("does not do yet:\n\n")[2], re.MULTILINE | re.DOTALL)[0]
        for page in ("README.md", "docs/testing.md")
    ]
    assert lists[0] == lists[1]
    assert lists[0].count("\n- **") == 2


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    places = re.compile("|".join("/" + place + "/" for place in ("work", "root", "home/[a-z]+", "Users/[A-Za-z]+")))
    found = []
    for name in files():
        try:
            text = read(name)
        except UnicodeDecodeError:
            continue
        found += [f"{name}: {hit[0]}" for hit in places.finditer(text)]
    assert found == []
