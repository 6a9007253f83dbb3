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


@pytest.mark.parametrize(("form", "split", "size"), [("text", True, 1024), ("json", False, 5)])
def test_split_stream_follows_the_flags_of_the_format(form: str, split: bool, size: int) -> None:
    gate = "--feature-gates=LoggingAlphaOptions=true"
    flags = ("--log-text-split-stream", "--log-text-info-buffer-size=1Ki", "--log-json-info-buffer-size=5")
    settings = options(gate, *flags, f"--logging-format={form}", "--log-flush-frequency=1s").logging.settings
    assert (settings.split_stream, settings.info_buffer_size, settings.flush_frequency) == (split, size, 1.0)


@pytest.mark.parametrize(
    ("argv", "file", "largest"),
    [
        (("--log-file=f",), "f", 1800 << 20),
        (("--log-file=f", "--log-file-max-size=0"), "f", 0),
        (("--log-file=f", "--log-file-max-size=2"), "f", 2 << 20),
        (("--log-dir=d", "--log-file-max-size=2"), "", 1800 << 20),
    ],
)
def test_size_of_log_files_is_limited_as_in_klog(argv: tuple[str, ...], file: str, largest: int) -> None:
    settings = options(*argv).logging.settings
    assert (settings.file, settings.largest_file) == (file, largest)
