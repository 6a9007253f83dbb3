"""Options that controllers declare."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.options import Check, ControllerOptions, InvalidOptionsError, Options, help_text, parse_options
from kcm.actors.options.configz import configuration, flag_values
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.flags.declaration import flag


class WebsiteOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "Website"

    port: int = flag(8080, "Port of the pages.", name="website-port", config="Port")
    replicas: int = flag(1, "Pods of a page.", name="website-replicas")


def at_least_one(options: Options) -> list[str]:
    return [] if options[WebsiteOptions].replicas > 0 else ["website-replicas must be greater than 0"]


def spec(name: str, group: type[ControllerOptions], *checks: Check) -> ControllerSpec:
    return ControllerSpec(name=name, options=group, checks=checks, build=lambda _context: None)


WEBSITE = spec("website-controller", WebsiteOptions, at_least_one)


def options(*argv: str) -> Options:
    return parse_options(argv, controllers=(WEBSITE,))


def test_options_of_a_controller_are_read_by_their_class() -> None:
    assert options("--website-port=80")[WebsiteOptions] == WebsiteOptions(port=80)


def test_unparsed_options_are_the_defaults() -> None:
    assert Options()[WebsiteOptions] == WebsiteOptions()


def test_replacing_one_group_keeps_the_others() -> None:
    changed = options("--website-port=80").with_group(NodeIpamOptions(mask_size=26))
    assert (changed[WebsiteOptions].port, changed[NodeIpamOptions].mask_size) == (80, 26)


def test_they_have_a_section_in_help_a_block_in_configz_and_a_line_in_flagz() -> None:
    read = options("--website-port=80")
    assert "Website-controller flags:\n\n      --website-port int" in help_text(read, columns=80)
    assert configuration(read)["Website"] == {"Port": 80}
    assert flag_values(read)["website-port"] == "80"


def test_their_checks_count_among_the_others() -> None:
    with pytest.raises(InvalidOptionsError) as caught:
        options("--website-replicas=0", "--hollow-zones=0")
    assert caught.value.errors == (
        "website-replicas must be greater than 0",
        "--hollow-zones must be greater than 0, but got 0",
    )


def test_unknown_controller_raises_an_error_with_the_known_ones() -> None:
    with pytest.raises(InvalidOptionsError) as caught:
        options("--controllers=nope")
    assert caught.value.known_controllers == ("website-controller",)


def test_two_controllers_may_share_their_options() -> None:
    other = spec("other-controller", WebsiteOptions)
    assert parse_options(["--website-port=80"], controllers=(WEBSITE, other))[WebsiteOptions].port == 80


def test_no_flag_may_be_declared_twice() -> None:
    class Greedy(ControllerOptions, frozen=True, kw_only=True):
        burst: int = flag(1, "Burst.", name="kube-api-burst")

    greedy = spec("greedy-controller", Greedy)
    with pytest.raises(ValueError, match="the flag --kube-api-burst of greedy-controller is taken by generic"):
        parse_options([], controllers=(greedy,))


def test_dataclass_of_options_is_refused() -> None:
    with pytest.raises(TypeError, match="Sizes is declared without @dataclass"):

        @dataclass(frozen=True)
        class Sizes(ControllerOptions):
            largest: int = flag(1, "Largest size.")
