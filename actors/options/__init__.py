"""The command line of kcm: parse_options(argv, ...) -> Options."""

from actors.options.parsing import InvalidOptions, help_text, parse_options
from actors.options.table import FLAGS, Options

__all__ = ["FLAGS", "InvalidOptions", "Options", "help_text", "parse_options"]
