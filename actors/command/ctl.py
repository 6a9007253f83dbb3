"""`run-kcm ctl`: show and change the controllers of a running manager.

Exit codes: 0; 1 with one line for each error; 2 for malformed arguments; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from kcm.actors.command.control_tables import (
    BRAKE,
    CLIENTS,
    CONTROLLERS,
    WIDE,
    ZONES,
    Row,
    brake_row,
    client_row,
    controller_lines,
    controller_row,
    table,
    wide_controller_row,
    zone_row,
)
from kcm.actors.command.manager_client import ManagerClient, ManagerError, add_manager_flags, open_manager
from kcm.runtime.flags.values import parse_duration
from kcm.runtime.process.termination import SIGINT, Ending, on_signals

CHANGES = {  # actions on controllers, with their help
    "enable": "start a controller, or start it again after it failed too often",
    "disable": "stop a controller",
    "pause": "start no reconciliation of a controller; its queues continue to fill",
    "resume": "end a pause",
    "restart": "replace the actor of a controller",
    "drain": "pause a controller, and wait until nothing is in progress",
}
WATCH_EVERY = 1.0  # seconds
PASSING = frozenset({"reconciled", "failed", "mailbox", "doing", "used", "passed"})  # fields that --watch ignores
AUTO = "auto"  # in place of a rate: the one that the manager computes, or that flags set
Show = Callable[[str], None]


class Listing(NamedTuple):
    """Collection of the manager, as a table. path: its page; items: the field with the list."""

    path: str
    items: str
    head: Row
    row: Callable[[Mapping[str, Any]], Row]


LISTINGS = {
    "list": Listing("/controllers", "controllers", CONTROLLERS, controller_row),
    "zones": Listing("/zones", "zones", ZONES, zone_row),
    "clients": Listing("/clients", "clients", CLIENTS, client_row),
}


def main(argv: Sequence[str]) -> int:
    """Run the command with the arguments that follow `ctl`, and return its exit code."""
    arguments = parser().parse_args(argv)
    stopping = on_signals()
    try:
        with open_manager(arguments) as manager:
            return run(arguments, manager, stopping=stopping, show=partial(print, flush=True))
    except ManagerError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1


def run(arguments: argparse.Namespace, manager: ManagerClient, *, stopping: Ending, show: Show) -> int:
    """Carry out a command. Raises ManagerError."""
    what: str = arguments.what
    if what in LISTINGS:
        return list_items(arguments, manager, stopping=stopping, show=show)
    if what == "get":
        details = manager.get(f"/controllers/{arguments.name}")
        show(_structured(details, arguments.output) or "\n".join(controller_lines(details)))
        return 0
    if what in CHANGES:
        return change_controllers(arguments, manager, show=show)
    if what == "rate":
        return _rate(arguments, manager, show=show)
    return _brake(arguments, manager, show=show)


def list_items(arguments: argparse.Namespace, manager: ManagerClient, *, stopping: Ending, show: Show) -> int:
    """Print a table; with --watch, then the rows that change."""
    listing = LISTINGS[arguments.what]
    if arguments.output == "wide" and listing.items == "controllers":
        listing = listing._replace(head=(*CONTROLLERS, *WIDE), row=wide_controller_row)
    content = manager.get(listing.path)
    items = content[listing.items]
    if text := _structured(content, arguments.output):
        show(text)
    elif arguments.output == "name":
        show("\n".join(item["name"] for item in items))
    else:
        show("\n".join(table(listing.head, map(listing.row, items))))
    shown = {item["name"]: _lasting(item) for item in items}
    while arguments.watch and not stopping.wait(WATCH_EVERY):
        content = manager.get(listing.path)
        items = content[listing.items]
        changed = [item for item in items if shown.get(item["name"]) != _lasting(item)]
        shown = {item["name"]: _lasting(item) for item in items}
        if changed and (text := _structured({**content, listing.items: changed}, arguments.output)):
            show(text)
        elif changed:
            lines = table(listing.head, map(listing.row, items))[1:]
            names = {item["name"] for item in changed}
            show("\n".join(line for item, line in zip(items, lines, strict=True) if item["name"] in names))
    return 128 + SIGINT if stopping.signal == SIGINT else 0


def _lasting(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item that do not change all the time."""
    return {
        field: value
        for field, value in item.items()
        if not field.endswith("Seconds") and field not in PASSING and not isinstance(value, list)
    }


def change_controllers(arguments: argparse.Namespace, manager: ManagerClient, *, show: Show) -> int:
    """Change each named controller. Errors of one do not prevent the others."""
    code = 0
    for name in arguments.names:
        try:
            query = {"timeout": f"{arguments.timeout:g}"}
            result = manager.post(f"/controllers/{name}/{arguments.what}", query=query)
        except ManagerError as err:
            print(f"Error: {err}", file=sys.stderr)
            code = 1
            continue
        show(_structured(result, arguments.output) or change_line(result))
        if result["outcome"] == "Pending":
            print(f"Error: {name} is still {result['result']['state']}", file=sys.stderr)
            code = 1
    return code


def change_line(result: Mapping[str, Any]) -> str:
    """Return "controllers/job-controller paused (Paused)"."""
    state = result["result"].get("state", "")
    done = {"Done": PAST.get(result["action"], result["action"]), "Unchanged": "unchanged", "Pending": "requested"}
    return f"{result['target']} {done[result['outcome']]}" + (f" ({state})" if state else "")


PAST = {
    "enable": "enabled",
    "disable": "disabled",
    "pause": "paused",
    "resume": "resumed",
    "restart": "restarted",
    "drain": "drained",
    "rate": "rate set",
    "engage": "engaged",
    "release": "released",
}


def _rate(arguments: argparse.Namespace, manager: ManagerClient, *, show: Show) -> int:
    settings: dict[str, Any] = {"qps": arguments.qps}
    if arguments.burst is not None:
        settings["burst"] = arguments.burst
    result = manager.post(f"/{arguments.kind}s/{arguments.name}/rate", settings)
    kind = LISTINGS[f"{arguments.kind}s"]
    show(_structured(result, arguments.output) or "\n".join(table(kind.head, [kind.row(result["result"])])))
    return 0


def _brake(arguments: argparse.Namespace, manager: ManagerClient, *, show: Show) -> int:
    if arguments.action == "show":
        content = brake = manager.get("/brake")
    else:
        settings = {} if arguments.qps is None else {"qps": arguments.qps}
        content = manager.post(f"/brake/{arguments.action}", settings)
        brake = content["result"]
    show(_structured(content, arguments.output) or "\n".join(table(BRAKE, [brake_row(brake)])))
    return 0


def _structured(content: Any, output: str) -> str:
    """Return the content as JSON or YAML; "" for another output."""
    if output == "json":
        return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
    if output == "yaml":
        import yaml  # slow to import

        text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        return text.rstrip("\n")
    return ""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments, from which the completion of shells is made as well."""
    root = argparse.ArgumentParser(
        prog="run-kcm ctl",
        description="Show and change the controllers of a running manager, by its secure port. A change applies to the "
        "process that leads, and ends with it. Who may do what is decided as for its other pages: by the right to get "
        "or post the path.",
    )
    commands = root.add_subparsers(dest="what", required=True, metavar="COMMAND")

    def add(name: str, text: str, *, outputs: Sequence[str] = ("json", "yaml")) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument("-o", "--output", choices=outputs, default="", help="output format (default: a table)")
        add_manager_flags(command)
        return command

    everything = ("json", "yaml", "wide", "name")
    for name, text in (
        ("list", "show all controllers"),
        ("zones", "show the zones of nodes, with their eviction rates"),
        ("clients", "show the API clients of controllers, with their rate limits"),
    ):
        command = add(name, text, outputs=everything)
        command.add_argument("-w", "--watch", action="store_true", help="then show rows that change, until Ctrl-C")
    add("get", "show one controller with its queues and actors").add_argument("name", metavar="CONTROLLER")
    for name, text in CHANGES.items():
        command = add(name, text)
        command.add_argument("names", nargs="+", metavar="CONTROLLER")
        command.add_argument(
            "--timeout",
            type=_duration,
            default="10s",
            metavar="DURATION",
            help="maximum time to wait for the effect, up to 1m (default %(default)s)",
        )
    rate = add("rate", "set the eviction rate of a zone, or the rate limit of an API client")
    rate.add_argument("kind", choices=("zone", "client"))
    rate.add_argument("name", metavar="NAME", help="zone or client; - is the zone of nodes without labels")
    rate.add_argument("qps", type=_rate_or_auto, metavar="QPS", help=f"per second; {AUTO} returns to the usual rate")
    rate.add_argument("--burst", type=int, metavar="NUMBER", help="burst of a client")
    brake = add("brake", "show, engage or release the storm brake, which holds back deletions and evictions")
    brake.add_argument("action", nargs="?", choices=("show", "engage", "release"), default="show")
    brake.add_argument(
        "--qps", type=float, metavar="QPS", help="writes per second to let through while it is engaged; 0 holds all"
    )
    return root


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"must be from 0s to 1m: {text}")
    return seconds


def _rate_or_auto(text: str) -> float | None:
    if text == AUTO:
        return None
    try:
        return float(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(f"must be a number or {AUTO}: {text!r}") from err
