"""A command line that may name controllers of other packages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import InvalidOptionsError
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.resources import PODS

WEBSITE = ControllerSpec(
    name="website-controller",
    aliases=("website",),
    queues=(Queue(watches=(Watch(PODS, to=itself),)),),
    build=lambda _around: None,  # type: ignore[arg-type, return-value]
)


def test_controllers_are_named_by_alias_upstreams_and_ones_own() -> None:
    options = read_options(["--controllers=deployment,-website"], controllers=(*BUILT_IN, WEBSITE))
    assert options.generic.controllers == ("deployment-controller", "-website-controller")


def test_a_controller_that_is_not_given_is_not_known() -> None:
    with pytest.raises(InvalidOptionsError, match='"website" is not in the list of known controllers'):
        read_options(["--controllers=website"])


def test_a_controller_takes_the_place_of_one_that_is_not_built_yet() -> None:
    expander = replace(WEBSITE, name="persistentvolume-expander-controller", aliases=("persistentvolume-expander",))
    options = read_options(["--controllers=persistentvolume-expander"], controllers=(*BUILT_IN, expander))
    assert options.generic.controllers == ("persistentvolume-expander-controller",)
