"""The index of kinds matches the files in kinds/, and every served kind can be written and read."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from kcm.runtime.apiserver import kinds
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.apiserver.kinds.bodies import BODIES
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.kinds.printers import NOW, PRINTERS, printer_for

GROUPS = [module.name for module in pkgutil.iter_modules(kinds.__path__) if module.ispkg and module.name != "pod_spec"]
FILES = [
    f"{group}.{module.name}"
    for group in GROUPS
    for module in pkgutil.iter_modules([str(Path(kinds.__path__[0]) / group)])
    if module.name != "shared"  # shared by the kinds of a group
]
STORED = (*BUILT_IN, *OFF_BY_DEFAULT, *BODIES.values())
LISTED = (*STORED, *AGGREGATED)


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_a_kind_is_listed(file: str) -> None:
    module = import_module(f"{kinds.__name__}.{file}")
    definitions = [value for name, value in vars(module).items() if name.startswith("RESOURCE")]
    assert definitions
    assert all(any(listed is definition for listed in LISTED) for definition in definitions)


def test_no_kind_is_listed_twice() -> None:
    identities = [(definition.group, definition.version, definition.plural) for definition in LISTED]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("definition", STORED, ids=lambda definition: definition.name)
def test_every_kind_has_types(definition: ResourceDefinition) -> None:
    """A kind needs types, as the server rejects values of wrong types only with them."""
    assert built_in_types().of_kind(definition.group, definition.version, definition.kind)


@pytest.mark.parametrize(
    "definition", [*BUILT_IN, *OFF_BY_DEFAULT], ids=lambda definition: f"{definition.name}-{definition.version}"
)
def test_every_kind_can_be_served(make_api, definition) -> None:
    """POST an empty object of each kind: it is stored or rejected as invalid; a review is evaluated or rejected."""
    resources = BUILT_IN if definition in BUILT_IN else (*BUILT_IN, definition)
    api = make_api(resources=resources)
    root = f"/apis/{definition.group}/{definition.version}" if definition.group else f"/api/{definition.version}"
    collection = (
        f"{root}/namespaces/default/{definition.plural}" if definition.namespaced else f"{root}/{definition.plural}"
    )
    created = api.send("POST", collection, {"metadata": {"name": "x.example.com", "generateName": "x"}})
    if "create" not in definition.verbs:
        assert created.status == 405
        assert api.send("GET", collection).obj["items"] == []
        return
    if definition.strategy.review is not None or definition.name == "bindings":
        assert created.status in (201, 400, 422)
        return
    assert created.status in (201, 422)
    if created.status == 201:
        assert api.send("GET", f"{collection}/x.example.com").obj == created.obj
        assert api.send("PUT", f"{collection}/x.example.com", created.obj).obj == created.obj
        assert api.send("DELETE", f"{collection}/x.example.com").status == 200


@pytest.mark.parametrize("api_version, kind", sorted(PRINTERS))
@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "x"}, "spec": {}, "status": {}}], ids=["empty", "bare"])
def test_printer_returns_one_cell_per_column_for_incomplete_objects(api_version, kind, obj) -> None:
    printer = printer_for(api_version, kind)
    assert len(printer.cells(obj, NOW)) == len(printer.columns)
