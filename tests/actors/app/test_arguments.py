"""Command lines that name controllers of other packages."""

from __future__ import annotations

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


def test_controllers_flag_accepts_aliases_and_custom_controllers() -> None:
    options = read_options(["--controllers=deployment,-website"], controllers=(*BUILT_IN, WEBSITE))
    assert options.generic.controllers == ("deployment-controller", "-website-controller")


def test_controller_that_was_not_passed_is_unknown() -> None:
    with pytest.raises(InvalidOptionsError, match='"website" is not in the list of known controllers'):
        read_options(["--controllers=website"])
