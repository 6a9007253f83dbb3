"""Sphinx configuration of the documentation site, which bin/docs builds from the repository's root."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any

from sphinx.util.typing import stringify_annotation
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.elector import election
from kcm.actors.engine.elector.groups import ControllerGroups
from kcm.actors.reconciliation import specs
from kcm.actors.reconciliation.reconciler import Reconciliation, Step
from kcm.actors.reconciliation.webhooks import AdmissionWebhook, VersionConversion
from kcm.actors.simulation.invariants.observer import Observation
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Outcome

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)")
FOLDER_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)\)")
QUALIFIED = re.compile(r"~?\b(?:[a-z_]\w*\.)+([A-Za-z]\w*)")
LONGEST_DEFAULT = 60  # characters
PARAMETER = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.+)")

MODULES = [f"kcm.{path.stem}" for path in sorted(ROOT.glob("docs/reference/*.md"))]

project = "kcm"
copyright = "the kcm authors, Apache License 2.0"
release = version = "0.2.0"

# Sphinx evaluates annotations; these names are imported for type checkers only.
for imported in (FilteringBoundLogger, AdmissionWebhook, VersionConversion):
    setattr(specs, imported.__name__, imported)
setattr(election, ControllerGroups.__name__, ControllerGroups)

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**"]
source_suffix = {".md": "markdown"}
default_role = "code"
smartquotes = False
html_theme = "furo"
html_title = f"kcm {release}"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True


def setup(app: Any) -> None:
    app.connect("source-read", prepare_page)
    app.connect("autodoc-skip-member", include_public_name)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", format_docstring)
    app.connect("build-finished", write_index)


def prepare_page(app: Any, page: str, source: list[str]) -> None:
    """Add the tree of pages to the pages that list others, and replace links to folders by their text."""
    folder = (ROOT / page).parent
    source[0] = FOLDER_LINK.sub(
        lambda link: link[1] if (folder / link[2]).is_dir() else link[0],
        source[0],
    )
    if page == "README":
        app.env.note_dependency(str(ROOT / "docs/README.md"))
        source[0] += tree("Overview", ["docs/README.md"]) + site_tree()
    if page == "docs/decisions/README":
        source[0] += tree("Decisions", LINK.findall(source[0]))


def write_index(app: Any, error: Exception | None) -> None:
    """Write the index page, which leads to the README."""
    if error is None:
        text = f'<meta charset="utf-8"><title>{html_title}</title>\n'
        text += '<meta http-equiv="refresh" content="0; url=README.html">\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def site_tree() -> str:
    """Return a toctree for each section of docs/README.md."""
    sections = (ROOT / "docs/README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    trees = ""
    for section in sections:
        caption, _, text = section.partition("\n")
        targets = ((ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix() for target in LINK.findall(text))
        trees += tree(caption, list(targets))
    return trees


def tree(caption: str, pages: list[str]) -> str:
    listed = "\n".join(dict.fromkeys(page for page in pages if page.endswith(".md")))
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def include_public_name(_app: Any, kind: str, _name: str, _obj: Any, skip: bool, _options: Any) -> bool | None:
    """Include the names of a module that need no docstring; of classes, only members that have one."""
    return False if kind == "module" and skip else None


def shorten_signature(
    _app: Any, _kind: str, _name: str, _obj: Any, _options: Any, arguments: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Use the names of types, and leave out long defaults."""
    arguments = shorten_defaults(with_names(arguments)) if arguments else arguments
    return arguments, with_names(result) if result else result


def with_names(types: str) -> str:
    """Return types without their modules, and with the names of unions and generators instead of their parts."""
    types = QUALIFIED.sub(r"\1", types.replace("~", ""))
    for text, name in names_of_types().items():
        types = types.replace(text, name)
    return types


@cache
def names_of_types() -> dict[str, str]:
    """Return the names of types by their text. A text precedes those that it contains."""
    reconciliation, step, command, outcome, observation = (
        QUALIFIED.sub(r"\1", stringify_annotation(each))
        for each in (Reconciliation, Step[Any], Command, Outcome, Observation)
    )
    named = {reconciliation: "Reconciliation", step.removesuffix("Any]"): "Step["}
    return {**named, command: "Command", outcome: "Outcome", observation: "Observation"}


def shorten_defaults(arguments: str) -> str:
    """Replace defaults by "...", if they are long or no Python, such as "<function at 0x…>"."""
    shortened, depth, start = "", 0, None
    for place, character in enumerate(arguments):
        if start is not None and depth == 1 and character in ",)":
            default = arguments[start:place]
            shortened += default if len(default) <= LONGEST_DEFAULT and "<" not in default else "..."
            start = None
        depth += (character in "([{") - (character in ")]}")
        if start is None:
            shortened += character
            if depth == 1 and shortened.endswith(" = "):
                start = place + 1
    return shortened


def format_docstring(_app: Any, _kind: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Convert the conventions of the project's docstrings to reStructuredText, in place."""
    if text := inspect.cleandoc("\n".join(lines)):
        lines[:] = to_rst(text).splitlines()


def to_rst(text: str) -> str:
    """Return a docstring of this project as reStructuredText.

    Indented paragraphs, and paragraphs of code, become literal blocks; "name: text" becomes a field of a field list.
    """
    converted: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        if paragraph.startswith(" ") or is_code(paragraph):
            converted.append("::\n\n" + indent(paragraph, "    "))
        elif PARAMETER.match(lines[0]):
            converted.append(fields(lines))
        else:
            converted.append("\n".join(map(linked, lines)))
    return "\n\n".join(converted) + "\n"


def fields(lines: list[str]) -> str:
    """Return a field list of lines "name: text" or "name, name: text"; other lines continue the text before them."""
    described: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if found := PARAMETER.match(line):
            described.append((found[1].split(", "), [linked(found[2])]))
        else:
            described[-1][1].append("    " + linked(line.strip()))
    return "\n".join(f":param {name}: " + "\n".join(text) for names, text in described for name in names)


def is_code(paragraph: str) -> bool:
    """Whether a paragraph is Python: examples in docstrings have no mark."""
    if not re.search(r"[=(@]|^\w+ def ", paragraph):
        return False
    try:
        ast.parse(paragraph)
    except SyntaxError:
        return False
    return True


def linked(line: str) -> str:
    """Link public names in backticks, and escape what reStructuredText would interpret."""
    line = re.sub(r"(?<![`\w])\*(?=\S)|_(?=[\s.,;:)]|$)", lambda mark: "\\" + mark[0], line)
    return re.sub(r"`([A-Za-z_]+)(\(\))?`", reference, line)


def reference(name: re.Match[str]) -> str:
    target = public_names().get(name[1])
    return f":py:obj:`{name[1]} <{target}>`" if target else name[0]


@cache
def public_names() -> dict[str, str]:
    """Return the full name of each public name of kcm."""
    return {name: f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
