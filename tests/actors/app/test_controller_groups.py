"""Groups of controllers: the built-in ones, files with others, and flags that exclude them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.app.controller_groups import BUILT_IN_GROUPS, LARGEST_FILE, GroupsError, parse_groups, read_groups
from kcm.actors.app.controller_plans import client_of
from kcm.actors.app.system_parts import with_active_groups
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Candidacy, Election
from kcm.actors.engine.elector.groups import MOST_GROUPS, REST, ControllerGroup, ControllerGroups
from kcm.actors.options import InvalidOptionsError
from kcm.actors.simulation import SimulatedCluster
from kcm.runtime.logs.standard_log import quiet_log

NAMES = tuple(spec.name for spec in BUILT_IN)


def test_each_built_in_controller_is_in_one_built_in_group() -> None:
    grouped = [controller for group in BUILT_IN_GROUPS.groups for controller in group.controllers]
    assert sorted(grouped) == sorted(NAMES)


def test_controllers_of_one_client_are_in_one_built_in_group() -> None:
    groups: dict[str, set[str]] = {}
    for spec in BUILT_IN:
        groups.setdefault(client_of(spec), set()).add(BUILT_IN_GROUPS.group_of(spec.name))
    assert {client: found for client, found in groups.items() if len(found) > 1} == {}


def parsed(tmp_path: Path, text: str) -> ControllerGroups:
    path = tmp_path / "groups.yaml"
    path.write_text(text)
    return parse_groups(path, BUILT_IN)


def test_file_names_groups_and_controllers_by_name_or_alias(tmp_path: Path) -> None:
    groups = parsed(
        tmp_path,
        "groups:\n- {name: work, controllers: [deployment, replicaset-controller]}\n"
        "- {name: batch, controllers: [job-controller], weight: 2.5}\n",
    )
    assert groups.groups == (
        ControllerGroup(name="work", controllers=("deployment-controller", "replicaset-controller")),
        ControllerGroup(name="batch", controllers=("job-controller",), weight=2.5),
    )
    assert groups.group_of("replicaset-controller") == "work"
    assert groups.group_of("endpoints-controller") == REST


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "a map with the field 'groups' and no other is expected"),
        ("[a]", "a map with the field 'groups' and no other is expected"),
        ("groups: []\nkind: x", "a map with the field 'groups' and no other is expected"),
        ("groups: []", "groups: a list with at least one group is expected"),
        ("groups: 5", "groups: a list with at least one group is expected"),
        ("groups: [5]", "groups[0]: a map is expected, not a number"),
        ("groups: [{name: a, controler: []}]", "groups[0]: unknown field 'controler'"),
        ("groups: [{controllers: [job]}]", "groups[0].name: a name is required"),
        ("groups: [{name: rest, controllers: [job]}]", "groups[0].name: 'rest' is the group of the controllers that"),
        ("groups: [{name: A_b, controllers: [job]}]", "invalid name of a group 'A_b'"),
        (f"groups: [{{name: {'a' * 41}, controllers: [job]}}]", "invalid name of a group"),
        ("groups: [{name: a}]", "groups[0].controllers: group 'a' has no controllers"),
        ("groups: [{name: a, controllers: []}]", "groups[0].controllers: group 'a' has no controllers"),
        ("groups: [{name: a, controllers: [jop]}]", "groups[0].controllers: 'jop' is not in the list of known"),
        ("groups: [{name: a, controllers: [[]]}]", "groups[0].controllers: [] is not in the list of known"),
        ("groups: [{name: a, controllers: [job, job-controller]}]", "job-controller is twice in group 'a'"),
        (
            "groups: [{name: a, controllers: [job]}, {name: b, controllers: [job-controller]}]",
            "job-controller is in 'a' and group 'b'",
        ),
        ("groups: [{name: a, controllers: [job]}, {name: a, controllers: [deployment]}]", "two groups are named 'a'"),
        ("groups: [{name: a, controllers: [job], weight: 0}]", "groups[0].weight: a number above 0"),
        ("groups: [{name: a, controllers: [job], weight: true}]", "groups[0].weight: a number above 0"),
        ("groups: [{name: a, name: b, controllers: [job]}]", 'key "name" already set in map'),
        ("groups: [", "not YAML"),
        (f"groups: [{', '.join(['{}'] * (MOST_GROUPS + 1))}]", f"groups: there are {MOST_GROUPS + 1}, and at most"),
        ("#" * (LARGEST_FILE + 1), f"the file is larger than {LARGEST_FILE} bytes"),
    ],
)
def test_invalid_file_is_refused_with_its_name(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(GroupsError) as found:
        parsed(tmp_path, text)
    assert str(tmp_path / "groups.yaml") in str(found.value)
    assert error in str(found.value)


def test_missing_file_is_refused() -> None:
    with pytest.raises(GroupsError, match="cannot read --leader-elect-groups=/nope: No such file"):
        read_groups(read_options(["--leader-elect-groups=/nope"]), BUILT_IN)


def test_auto_selects_the_built_in_groups() -> None:
    assert read_groups(read_options(["--leader-elect-groups=auto"]), BUILT_IN) is BUILT_IN_GROUPS


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--leader-elect=false", "--leader-elect-groups requires --leader-elect"),
        ("--enable-leader-migration", "--leader-elect-groups and --enable-leader-migration exclude each other"),
        ("--feature-gates=CoordinatedLeaderElection=true", "--leader-elect-groups and --feature-gates=Coordinated"),
    ],
)
def test_flags_that_exclude_groups_are_refused(flag: str, error: str) -> None:
    with pytest.raises(InvalidOptionsError, match=error):
        read_options(["--leader-elect-groups=auto", flag])


def test_election_refuses_groups_with_coordinated_election() -> None:
    with pytest.raises(ValueError, match="exclude leader migration and coordinated"):
        Election(
            identity="a",
            namespace="d",
            name="n",
            groups=BUILT_IN_GROUPS,
            candidacy=Candidacy(binary_version="1.36.0", emulation_version="1.36.0"),
        )


GROUPS = ControllerGroups(
    groups=(
        ControllerGroup(name="one", controllers=("a", "b")),
        ControllerGroup(name="two", controllers=("c",), weight=3.0),
    )
)


def test_groups_without_a_running_controller_have_no_lease() -> None:
    active = GROUPS.active(["a", "d"], known=["a", "b", "c", "d"])
    assert [(group.name, group.controllers) for group in active.groups] == [("one", ("a",)), (REST, ("d",))]
    assert [active.group_of(name) for name in "abcd"] == ["one", REST, REST, REST]


def test_fingerprint_depends_on_the_controllers_of_each_group_alone() -> None:
    same = ControllerGroups(
        groups=(
            ControllerGroup(name="one", controllers=("b", "a"), weight=2.0),
            ControllerGroup(name="two", controllers=("c",)),
        )
    )
    other = ControllerGroups(groups=(ControllerGroup(name="one", controllers=("a", "b", "c")),))
    assert same.identity == GROUPS.identity == f"kcm-groups_{GROUPS.fingerprint}"
    assert other.identity != GROUPS.identity


def test_controllers_of_one_client_cannot_be_apart(tmp_path: Path) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text("groups: [{name: ipam, controllers: [node-ipam-controller]}]")
    flags = ["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16", f"--leader-elect-groups={path}"]
    with pytest.raises(GroupsError, match="node-ipam-controller and node-lifecycle-controller send requests as node"):
        read_groups(read_options(flags), BUILT_IN)


def test_system_refuses_controllers_of_one_client_that_are_apart() -> None:
    apart = ControllerGroups(groups=(ControllerGroup(name="ipam", controllers=("node-ipam-controller",)),))
    cluster = SimulatedCluster(log=quiet_log())
    options = read_options(["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16"])
    with pytest.raises(ValueError, match="send requests as node-controller and must be in one group"):
        cluster.manager(options=options, election=Election(identity="a", namespace="d", name="n", groups=apart))


def test_assembly_without_groups_is_unchanged() -> None:
    system = SimulatedCluster(log=quiet_log()).manager()
    assert with_active_groups(system._assembly, BUILT_IN, NAMES) is system._assembly
