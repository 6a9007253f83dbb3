"""`run-kcm why KIND NAMESPACE/NAME`: why an object is stuck; also `kubectl why` (bin/kubectl-why).

The manager explains the object, as it alone has the queues and the decisions. If no manager can be reached, the command
explains the object from the API server alone, and a note contains the reason.

Exit codes: 0 if nothing is wrong, or the object is under way or on hold, 1 if it is stuck or does not exist, 2 for
malformed arguments, 3 if neither a manager nor an API server can be asked, or the manager does not reach its server.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec
import yaml
from msgspec.structs import replace

from kcm.actors.app.connection import connect
from kcm.actors.command.embedded_directory import MANAGER_KUBECONFIG
from kcm.actors.command.manager_client import ManagerError, add_manager_flags, open_manager
from kcm.actors.explanation.api_reader import ApiReader
from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.evidence import Evidence, ReadError
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.questions import Question, QuestionError, place_of, words_of
from kcm.actors.explanation.text import text_of
from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock

FINE, STUCK, MALFORMED, UNREACHABLE = range(4)  # exit codes
WITHIN = 10.0  # seconds of one request
BAD_REQUEST, NOT_FOUND = 400, 404


def main(argv: Sequence[str], *, program: str = "run-kcm why") -> int:
    """Run the command, and return its exit code. argv: the arguments after `why`."""
    arguments = parser(program).parse_args(argv)
    _find_directory(arguments)
    try:
        question = words_of(arguments.object, namespace=arguments.namespace or _default_namespace(arguments))
        explanation = _explanation(arguments, question)
    except QuestionError as err:
        print(f"Error: {err}", file=sys.stderr)
        return MALFORMED
    except (ConfigError, ReadError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return UNREACHABLE
    print(_shown(explanation, arguments.output), end="")
    return {"stuck": STUCK, "not found": STUCK, "unknown": UNREACHABLE}.get(explanation.verdict, FINE)


def _explanation(arguments: argparse.Namespace, question: Question) -> Explanation:
    """Return the explanation of a manager, or else of the objects alone.

    Raises QuestionError, ConfigError and ReadError.
    """
    query = {"kind": question.kind, "namespace": question.namespace, "name": question.name}
    if arguments.cluster:
        query["cluster"] = arguments.cluster
    try:
        if arguments.kubeconfig and not arguments.server:
            raise ManagerError("--kubeconfig names an API server: name the manager by --server")
        with open_manager(arguments) as manager:
            return msgspec.convert(manager.get("/why", query), Explanation)
    except ManagerError as err:
        if err.status == BAD_REQUEST or (err.status == NOT_FOUND and str(err).startswith("kind: ")):
            raise QuestionError(str(err)) from err
        reason = str(err)
    try:
        explanation = _from_objects(arguments, question)
    except ConfigError as err:
        raise ConfigError(f"no manager: {reason}; no API server: {err}") from err
    note = f"no manager could be asked, so this is from the API server's objects alone: {reason}"
    return replace(explanation, notes=(note, *explanation.notes))


def _from_objects(arguments: argparse.Namespace, question: Question) -> Explanation:
    with ExitStack() as closing:
        clock, metrics = SystemClock(), Metrics()
        closing.callback(clock.close)
        config = load_config(
            kubeconfig=_kubeconfig(arguments),
            context=arguments.cluster,
            master=None,
            environ=os.environ,
            clock=clock,
            metrics=metrics,
        )
        transport = connect(config, clock=clock, metrics=metrics, log=standard_log("kcm"))
        closing.callback(transport.close, timeout=2.0)
        reader = ApiReader(partial(transport.request, client=OWN_CLIENT, timeout=WITHIN))
        resource, key = place_of(question, reader.find)
        return explain(resource, key, Evidence(reader, now=clock.now(), cluster=arguments.cluster))


def _find_directory(arguments: argparse.Namespace) -> None:
    """Use the embedded cluster whose kubeconfig KUBECONFIG names, unless flags name a cluster."""
    named = os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    directory = Path(named).parent if named else None
    if directory is not None and arguments.embedded_dir == EmbeddedServerOptions().directory:
        if (directory / MANAGER_KUBECONFIG).exists():
            arguments.embedded_dir = str(directory)


def _default_namespace(arguments: argparse.Namespace) -> str:
    """Return the namespace of the current context of the kubeconfig, or "default"."""
    try:
        config = yaml.safe_load(Path(_kubeconfig(arguments)).read_text(encoding="utf-8"))
        contexts = {entry["name"]: entry["context"] for entry in config["contexts"]}
        return str(contexts[config["current-context"]].get("namespace") or "default")
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return "default"


def _kubeconfig(arguments: argparse.Namespace) -> str:
    """Return the kubeconfig of the API server: of --kubeconfig, of KUBECONFIG, or of the embedded cluster."""
    given: str = arguments.kubeconfig
    named = os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    embedded = Path(arguments.embedded_dir) / "kubeconfig"
    if given or named:
        return given or named
    return str(embedded) if embedded.exists() else str(Path.home() / ".kube" / "config")


def _shown(explanation: Explanation, output: str) -> str:
    if output == "text":
        return text_of(explanation)
    plain = msgspec.to_builtins(explanation)
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"
    shown: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return shown


def parser(program: str = "run-kcm why") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Explain why an object is stuck: the causes, the root first, what each controller decided last, "
        "and when it looks again.",
        epilog="Exit codes: 0 nothing is wrong, or it is under way or on hold; 1 it is stuck, or does not exist; 2 "
        "malformed arguments; 3 the API server cannot be asked.",
    )
    parser.add_argument(
        "object", nargs="+", metavar="OBJECT", help="KIND NAME, KIND NAMESPACE/NAME or KIND/NAME, kinds as in kubectl"
    )
    parser.add_argument(
        "-n", "--namespace", default="", help="namespace, unless OBJECT contains one (default: that of the kubeconfig)"
    )
    parser.add_argument(
        "--cluster",
        default="",
        help="cluster of the object, if the manager works on several; without a manager, a context of the kubeconfig",
    )
    parser.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="form of the output")
    add_manager_flags(parser)
    return parser


def kubectl_why() -> int:
    """Run the plugin `kubectl why`."""
    from kcm.runtime.process.standard_streams import printing

    return printing(partial(main, sys.argv[1:], program="kubectl why"))
