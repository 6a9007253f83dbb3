"""The flags --emulated-version and --min-compatibility-version.

The texts are those of kube-controller-manager for the same values, except that 1.36 is not the newest release here.
"""

from __future__ import annotations

import pytest

from kcm.actors.options import InvalidOptionsError, parse_options
from kcm.actors.options.versions import effective_versions, version_faults

BELOW = (
    "emulation version {0} is not between [1.33, 1.37.0]",
    "minCompatibilityVersion version 1.33 is not between [1.33, {0}]",
)


@pytest.mark.parametrize(
    ("emulated", "compatible", "faults"),
    [
        ((), (), []),
        (("1.33",), (), []),
        (("v1.35",), (), []),
        (("1.35.0",), (), []),
        (("kube=1.36",), ("kube=1.36",), []),
        (("1.36",), ("1.33",), []),
        (("1.37",), ("kube=1.37",), []),
        (("1.38",), (), ["emulation version 1.38 is not between [1.33, 1.37.0]"]),
        (("1.30",), (), [text.format("1.30") for text in BELOW]),
        (("kube=1.30",), (), [text.format("1.30") for text in BELOW]),
        (("1.32",), (), [text.format("1.32") for text in BELOW]),
        (("1.99",), (), ["emulation version 1.99 is not between [1.33, 1.37.0]"]),
        (("bogus",), (), ['could not parse "bogus" as version']),
        (("1",), (), ['illegal version string "1"']),
        (("01.35",), (), ['illegal zero-prefixed version component "01" in "01.35"']),
        (("1.35.1",), (), ["patch version not allowed, got: kube=1.35.1"]),
        (("foo=1.35",), (), ["component not registered: foo"]),
        (("1.34", "1.35"), (), ["duplicate version flag, kube=1.34 and kube=1.35"]),
        (("1.33",), ("1.34",), ["minCompatibilityVersion version 1.34 is not between [1.33, 1.33]"]),
        ((), ("1.30",), ["minCompatibilityVersion version 1.30 is not between [1.33, 1.36]"]),
        ((), ("1.37",), ["minCompatibilityVersion version 1.37 is not between [1.33, 1.36]"]),
        ((), ("bogus",), ['could not parse "bogus" as version']),
    ],
)
def test_versions_out_of_form_or_range_are_refused(
    emulated: tuple[str, ...], compatible: tuple[str, ...], faults: list[str]
) -> None:
    assert version_faults(emulated, compatible) == faults


@pytest.mark.parametrize(
    ("emulated", "compatible", "effective"),
    [
        ((), (), ("1.36", "1.35")),
        (("1.35",), (), ("1.35", "1.34")),
        (("1.37",), (), ("1.37", "1.36")),
        (("kube=1.33",), (), ("1.33", "1.33")),
        (("1.35",), ("1.33",), ("1.35", "1.33")),
        ((), ("1.36",), ("1.36", "1.36")),
    ],
)
def test_oldest_compatible_version_follows_the_emulated_one(
    emulated: tuple[str, ...], compatible: tuple[str, ...], effective: tuple[str, str]
) -> None:
    assert tuple(map(str, effective_versions(emulated, compatible))) == effective


def test_command_line_with_version_that_is_too_old_is_refused() -> None:
    with pytest.raises(InvalidOptionsError) as error:
        parse_options(["--emulated-version=1.30"])
    assert error.value.errors == tuple(text.format("1.30") for text in BELOW)
    assert str(error.value) == f"[{', '.join(error.value.errors)}]"
