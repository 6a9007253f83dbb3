"""Configuration of leader migration: the texts were printed by kube-controller-manager 1.36.2 for the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.app.leader_migration import MigrationError, parse_migration, read_migration
from kcm.actors.engine.elector.migration import DEFAULT_MIGRATION, Migration, Ownership

V1 = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n"
ALPHA = V1.replace("/v1", "/v1alpha1")
NO_KIND = (
    'no kind "{kind}" is registered for version "{version}" in scheme '
    '"k8s.io/controller-manager/pkg/leadermigration/config/config.go:39"'
)
NOT_PARSED = "failed to parse leader migration configuration: "
NOT_UNMARSHALLED = (
    "json: cannot unmarshal {found} into Go struct field LeaderMigrationConfiguration.{field} of type {kind}"
)
NO_VERSION = "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go "
STRUCT = (
    r'value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
INVALID = {
    "": "Object 'Kind' is missing in ''",
    "{}": "Object 'Kind' is missing in '{}'",
    "null": "Object 'Kind' is missing in 'null'",
    "kind: LeaderMigrationConfiguration\n": (
        "Object 'apiVersion' is missing in 'kind: LeaderMigrationConfiguration\n'"
    ),
    "apiVersion: a/b/c\nkind: LeaderMigrationConfiguration\n": "unexpected GroupVersion string: a/b/c",
    "apiVersion: 5\nkind: LeaderMigrationConfiguration\n": (
        NO_VERSION.format(found="number") + "struct field .apiVersion of type string"
    ),
    "[a]": NO_VERSION.format(found="array") + STRUCT,
    "just text": NO_VERSION.format(found="string") + STRUCT,
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n": NO_KIND.format(
        kind="KubeletConfiguration", version="kubelet.config.k8s.io/v1beta1"
    ),
    V1.replace("/v1", "/v2"): NO_KIND.format(
        kind="LeaderMigrationConfiguration", version="controllermanager.config.k8s.io/v2"
    ),
    V1: NOT_PARSED + "[leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration]",
    f"{V1}leaderName: aa\nbar: 1\nfoo: 1\n": 'strict decoding error: unknown field "bar", unknown field "foo"',
    f"{V1}leaderName: aa\nfoo: 1\nfoo: 2\n": (
        'strict decoding error: yaml: unmarshal errors:\n  line 5: key "foo" already set in map, unknown field "foo"'
    ),
    f"{V1}leaderName: aa\ncontrollerLeaders: [{{name: a, component: b, name: c}}]\nleaderName: bb\n": (
        'strict decoding error: yaml: unmarshal errors:\n  line 4: key "name" already set in map\n'
        '  line 5: key "leaderName" already set in map'
    ),
    f"{V1}leaderName: aa\ncontrollerLeaders: [{{name: a, component: b, extra: 1}}]\n": (
        'strict decoding error: unknown field "controllerLeaders[0].extra"'
    ),
    f"{V1}leaderName: aa\ncontrollerLeaders: [{{name: a}}, {{component: b}}]\n": (
        NOT_PARSED + "[controllerLeaders[0].component: Required value controllerLeaders[1].name: Required value]"
    ),
    f"{V1}leaderName: aa\ncontrollerLeaders: [null]\n": (
        NOT_PARSED + "[controllerLeaders[0].component: Required value controllerLeaders[0].name: Required value]"
    ),
    f"{V1}leaderName: true\n": NOT_UNMARSHALLED.format(found="bool", field="leaderName", kind="string"),
    f"{V1}leaderName: 5\n": NOT_UNMARSHALLED.format(found="number", field="leaderName", kind="string"),
    f"{V1}leaderName: aa\ncontrollerLeaders: {{a: b}}\n": NOT_UNMARSHALLED.format(
        found="object", field="controllerLeaders", kind="[]v1.ControllerLeaderConfiguration"
    ),
    f"{V1}leaderName: aa\ncontrollerLeaders: [a]\n": NOT_UNMARSHALLED.format(
        found="string", field="controllerLeaders", kind="v1.ControllerLeaderConfiguration"
    ),
    f"{V1}leaderName: aa\nresourceLock: leases\n": 'strict decoding error: unknown field "resourceLock"',
    f"{V1}LeaderName: aa\n": 'strict decoding error: unknown field "LeaderName"',
    f"{ALPHA}leaderName: aa\n": (
        NOT_PARSED + "[resourceLock: Invalid value: \"\": resource Lock must be one of 'leases' or 'endpoints']"
    ),
    f"{ALPHA}leaderName: aa\nresourceLock: endpoints\n": "endpoints lock is removed, migrate to leases",
    "a: [\n": "yaml: line 1: did not find expected node content",
}


@pytest.mark.parametrize("text", INVALID)
def test_invalid_file_is_rejected_with_upstreams_text(tmp_path: Path, text: str) -> None:
    file = tmp_path / "migration.yml"
    file.write_text(text)
    with pytest.raises(MigrationError) as raised:
        parse_migration(file)
    assert str(raised.value) == INVALID[text]


def test_missing_file_is_rejected_with_upstreams_text() -> None:
    with pytest.raises(MigrationError) as raised:
        parse_migration(Path("/nope"))
    expected = 'unable to read leader migration configuration from "/nope": open /nope: no such file or directory'
    assert str(raised.value) == expected


@pytest.mark.parametrize("text", [f"{V1}leaderName: aa\n", f"{ALPHA}leaderName: aa\nresourceLock: leases\n"])
def test_file_of_each_version_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "migration.yml"
    file.write_text(f"{text}controllerLeaders:\n- {{name: a-controller, component: '*'}}\n")
    assert parse_migration(file) == Migration(lease="aa", components={"a-controller": "*"})


def test_flags_select_the_configuration() -> None:
    assert read_migration(read_options(["--leader-migration-config=/nope"])) is None
    assert read_migration(read_options(["--enable-leader-migration"])) is DEFAULT_MIGRATION
    assert read_migration(read_options(["--enable-leader-migration", "--leader-elect=false"])) is None


def test_component_decides_about_the_lease_of_a_controller() -> None:
    components = {"any": "*", "ours": "kube-controller-manager", "theirs": "cloud-controller-manager"}
    migration = Migration(lease="aa", components=components)
    found = {
        name: migration.ownership(name, component="kube-controller-manager")
        for name in ("any", "ours", "theirs", "unlisted")
    }
    assert found == {
        "any": Ownership.MIGRATED,
        "ours": Ownership.MIGRATED,
        "theirs": Ownership.UNOWNED,
        "unlisted": Ownership.MAIN,
    }
