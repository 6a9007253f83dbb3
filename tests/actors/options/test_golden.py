"""The whole of --help and /configz, byte for byte.

Any difference is a change that users notice. After a change that is meant: python -m tests.actors.options.test_golden
"""

from __future__ import annotations

import json
from pathlib import Path

from kcm.actors.app.arguments import read_options
from kcm.actors.options import help_text
from kcm.actors.options.configz import configuration

HELP = Path(__file__).parent / "golden" / "help.txt"
CONFIGZ = Path(__file__).parent / "golden" / "configz.json"


def shown_help() -> str:
    return help_text(read_options(["--help"]), columns=100)


def shown_configz() -> str:
    return json.dumps(configuration(read_options([])), indent=1) + "\n"


def test_help_is_unchanged() -> None:
    assert shown_help() == HELP.read_text()


def test_configz_is_unchanged() -> None:
    assert shown_configz() == CONFIGZ.read_text()


if __name__ == "__main__":
    HELP.write_text(shown_help())
    CONFIGZ.write_text(shown_configz())
