"""Command line of kcm: parse_options(argv, ...) -> Options."""

from kcm.actors.options.controller_options import ControllerOptions
from kcm.actors.options.known_controllers import Check
from kcm.actors.options.parsing import InvalidOptionsError, OtherProgram, help_text, parse_options
from kcm.actors.options.table import Options

__all__ = ["Check", "ControllerOptions", "InvalidOptionsError", "Options", "OtherProgram", "help_text", "parse_options"]
