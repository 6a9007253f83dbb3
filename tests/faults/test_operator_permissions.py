"""The example operators declare the permissions that they need, and no more.

One declared permission after the other is removed. A campaign must then report the request that has no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from kcm import ControllerSpec
from kcm.actors.command import run_kcm
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.setting import Setting
from kcm.manifests import Permission
from tests.support.examples import (
    backup_operator,
    certificate_operator,
    copy_operator,
    database_operator,
    dns_operator,
    tenant_operator,
    test_backup,
    test_certificate,
    test_copies,
    test_database,
    test_dns,
    test_tenant_faults,
    test_website_faults,
    website_controller,
)

OPERATORS: dict[str, tuple[ControllerSpec, Setting]] = {
    "website_controller.py:WEBSITE": (website_controller.WEBSITE, test_website_faults.SETTING),
    "tenant_operator.py:tenant_spec": (tenant_operator.tenant_spec(), test_tenant_faults.SETTING),
    "backup_operator.py:backup_spec": (backup_operator.backup_spec(), test_backup.SETTING),
    "database_operator.py:DATABASE": (database_operator.DATABASE, test_database.SETTING),
    "dns_operator.py:dns_spec": (dns_operator.dns_spec(), test_dns.SETTING),
    "copy_operator.py:COPIER": (copy_operator.COPIER, test_copies.SETTING),
    "certificate_operator.py:certificate_spec": (certificate_operator.certificate_spec(), test_certificate.SETTING),
}
ARGUMENTS = {"copy_operator.py:COPIER": ("--cluster=edge", "--", "--kubeconfig=clusters")}
EXAMPLES = Path(backup_operator.__file__).parent
SEEDS = range(12)  # one of them must need the permission


def permissions_of(spec: ControllerSpec) -> tuple[Permission, ...]:
    assert spec.permissions is not None
    return spec.permissions


def cases() -> Iterator[Any]:
    for name, (spec, setting) in OPERATORS.items():
        for permission in permissions_of(spec):
            if "bind" in permission.verbs:
                continue  # a verb of no request: the API server asks for it when a RoleBinding is created
            what = f"{permission.resource.plural} {permission.subresource}".rstrip()
            yield pytest.param(spec, setting, permission, id=f"{name} {what}")


def without(spec: ControllerSpec, permission: Permission, setting: Setting) -> Setting:
    """Return the setting, whose controller lacks the permission."""
    controllers: Any = setting.controllers

    def lacking(specs: Any) -> tuple[ControllerSpec, ...]:
        rest = tuple(each for each in permissions_of(spec) if each != permission)
        return tuple(replace(each, permissions=rest) if each.name == spec.name else each for each in specs)

    if callable(controllers):
        return replace(setting, controllers=lambda outside: lacking(controllers(outside)))
    return replace(setting, controllers=lacking(controllers))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("spec", "setting", "permission"), [*cases()])
def test_missing_permission_is_found_and_named(spec: ControllerSpec, setting: Setting, permission: Permission) -> None:
    planted = without(spec, permission, setting)
    found = next(
        (text for seed in SEEDS for text in map(str, check(seed, setting=planted, compared=False).violations)), ""
    )
    resource = permission.resource
    what = f"{resource.plural}/{permission.subresource}" if permission.subresource else resource.plural
    name = f"{what}.{resource.group}" if resource.group else what
    name = f"{resource.cluster}:{name}" if resource.cluster else name
    assert re.search(rf"{spec.name} may not \w+ {re.escape(name)}: declare Permission\(<{resource.plural}>", found), (
        found
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_manifests_of_an_example_have_its_definition_and_its_role(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_kcm.main(["manifests", str(EXAMPLES / name), *ARGUMENTS.get(name, ())]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    spec, _ = OPERATORS[name]
    crds = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    assert crds == [definition.resource.name for definition in spec.definitions]
    (role,) = (obj for obj in objects if obj["kind"] == "ClusterRole")
    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    needed = {f"{each.resource.plural}/{each.subresource}".rstrip("/") for each in permissions_of(spec)}
    assert needed | {watch.resource.plural for watch in spec.watches} <= granted
