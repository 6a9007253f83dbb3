"""Options of logs."""

from __future__ import annotations

import tempfile

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import Options


def options(*argv: str) -> Options:
    return read_options(argv)


@pytest.mark.parametrize(
    "argv, directory, to_stderr",
    [
        ((), "", True),
        (("--log-dir=d",), "d", True),
        (("--log_dir=d", "--logtostderr=false"), "d", False),
        (("--log-dir=d", "--logtostderr=false", "--alsologtostderr"), "d", True),
        (("--logtostderr=false",), tempfile.gettempdir(), False),
    ],
)
def test_flags_determine_the_log_destination(argv: tuple[str, ...], directory: str, to_stderr: bool) -> None:
    settings = options(*argv).logging.settings
    assert (settings.directory, settings.to_stderr) == (directory, to_stderr)


def test_verbosities_of_sources_are_numbers() -> None:
    assert options("--vmodule=rep*=4,job=2").logging.settings.vmodule == (("rep*", 4), ("job", 2))
