"""The command line of kcm: parse_options(argv, ...) -> Options."""

from actors.options.controller_options import Check, ControllerOptions
from actors.options.parsing import InvalidOptions, help_text, parse_options
from actors.options.table import Options

__all__ = ["Check", "ControllerOptions", "InvalidOptions", "Options", "help_text", "parse_options"]
