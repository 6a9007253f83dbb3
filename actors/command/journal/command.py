"""`run-kcm journal show FILE`, `run-kcm journal serve FILE` and `run-kcm journal replay FILE --actor controller:NAME`.

Exit codes: 0, or 1 if a replay differs; 2 if the journal or the arguments are malformed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import unified_diff
from functools import partial
from pathlib import Path

import orjson

from kcm.actors.app.arguments import read_options
from kcm.actors.app.installed import installed_controllers
from kcm.actors.command.generation.programs import NoSpecsError, load_specs
from kcm.actors.command.journal.replay import ReplayDifference, command_values, position_of, replay
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import InvalidOptionsError, Options
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.messages.commands import Submit
from kcm.protocols.messages.journal import Opened
from kcm.protocols.times import parse_time
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.logs.standard_log import quiet_log, standard_log
from kcm.runtime.system.journal import JournalError, Record, read_journal
from kcm.runtime.system.journal_table import Filter, aligned, rows


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `journal`."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.what == "show":
            return show(arguments.file, arguments)
        if arguments.what == "serve":
            return show_history(arguments.file, arguments.port, arguments.specs)
        return show_replay(arguments.file, arguments.actor, arguments.incarnation, arguments.specs)
    except (JournalError, NoSpecsError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 2


def show(file: Path, arguments: argparse.Namespace) -> int:
    journal = read_journal(file)
    start = next((record.wall for record in journal if isinstance(record, Opened)), 0.0)
    journal.troubles.clear()
    wanted = Filter(
        actor=arguments.actor,
        object=arguments.object,
        since=_moment(arguments.since, start, float("-inf")),
        until=_moment(arguments.until, start, float("inf")),
    )
    for line in aligned(rows(journal, wanted)):
        print(line)
    _warn(journal.troubles)
    return 0


def show_replay(file: Path, actor: str, incarnation: int | None, named: str | None) -> int:
    """Replay a controller. named: "module:SPECS", the controllers of a program of its own. Raises NoSpecsError."""
    records = _records(file)
    specs = _specs(named)
    done = replay(
        records,
        actor,
        specs=specs,
        read_options=partial(_options_of, specs),
        log=standard_log("kcm"),
        incarnation=incarnation,
    )
    print(f"Handled {done.handled} messages. {done.batches} batches of commands are equal to the recorded ones.")
    if done.inexact:
        _warn(["an actor hung while it handled a message: from there on, the recorded order may differ from the run's"])
    if done.difference is None:
        print("No difference.")
        return 0
    print(f"The first difference is {position_of(done.difference)}:")
    print("\n".join(difference_lines(done.difference)))
    return 1


def show_history(file: Path, port: int, named: str | None) -> int:
    """Serve the console over a journal. named: as of show_replay. Raises NoSpecsError."""
    from kcm.actors.command.journal.history import JournalHistory  # with a web server
    from kcm.actors.command.journal.serve import serve
    from kcm.runtime.serving.server import ServingError

    specs = _specs(named)
    log = standard_log("kcm")
    history = JournalHistory(_records(file), specs=specs, read_options=partial(_options_of, specs), log=quiet_log())
    try:
        return serve(history, port=port, log=log, show=partial(print, flush=True))
    except ServingError as err:
        raise JournalError(str(err)) from err


def _records(file: Path) -> list[Record]:
    journal = read_journal(file)
    records = list(journal)
    _warn(journal.troubles)
    return records


def _specs(named: str | None) -> tuple[ControllerSpec, ...]:
    return (*BUILT_IN, *installed_controllers().specs) if named is None else tuple(load_specs(named)[1])


def _options_of(specs: Sequence[ControllerSpec], arguments: Sequence[str]) -> Options:
    """Parse the command line of a run. Raises JournalError."""
    try:
        return read_options(arguments, controllers=specs)
    except (FlagError, InvalidOptionsError) as err:
        raise JournalError(f"cannot parse the command line of the run: {err}") from err


def difference_lines(difference: ReplayDifference) -> list[str]:
    """Return a unified diff of the commands."""
    before, after = _lines(difference.recorded), _lines(difference.replayed)
    return list(unified_diff(before, after, "recorded", "replayed", lineterm="", n=5))


def _lines(submit: Submit | None) -> list[str]:
    if submit is None:
        return []
    head = f"as {submit.client}, ticket {submit.ticket}"
    values = orjson.dumps(command_values(submit), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
    return [head, *values.splitlines()]


def _warn(troubles: Sequence[str]) -> None:
    for trouble in troubles:
        print(f"Warning: {trouble}", file=sys.stderr)


def _moment(text: str, start: float, default: float) -> float:
    """Parse an RFC 3339 time, or "+12.5" for seconds after the start, to Unix seconds. Raises JournalError."""
    if not text:
        return default
    try:
        return start + float(text[1:]) if text.startswith("+") else parse_time(text)
    except ValueError as err:
        raise JournalError(f"{text!r} is neither a time like 2026-11-21T12:00:00Z nor seconds like +12.5") from err


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm journal", description="Show or replay the messages that --journal recorded."
    )
    what = parser.add_subparsers(dest="what", required=True)
    shown = what.add_parser("show", help="print the messages as a table")
    shown.add_argument("file", type=Path, help="newest file of the journal; older files beside it are read too")
    shown.add_argument("--actor", default="*", help="sender or receiver; * and ? match as in a shell")
    shown.add_argument("--object", default="*", help="namespace/name of an object; * and ? match as in a shell")
    shown.add_argument(
        "--since", default="", help="first time to show: 2026-11-21T12:00:00Z, or +SECONDS after the start"
    )
    shown.add_argument("--until", default="", help="last time to show, in the same form")
    played = what.add_parser("replay", help="pass the recorded messages to a controller and compare its commands")
    played.add_argument("file", type=Path, help="newest file of the journal")
    played.add_argument("--actor", required=True, help="controller:NAME")
    played.add_argument(
        "--specs",
        metavar="module:SPECS",
        help="controllers of the run, if it was one of kcm.main (default: of run-kcm)",
    )
    served = what.add_parser("serve", help="show the run in a browser: each step, with tables and queues as they were")
    served.add_argument("file", type=Path, help="newest file of the journal")
    served.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any free one)")
    served.add_argument("--specs", metavar="module:SPECS", help="controllers of the run, as for replay")
    played.add_argument("--incarnation", type=int, help="incarnation of a restarted controller (default: the newest)")
    return parser
