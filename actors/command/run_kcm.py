"""`run-kcm`: the command line of the controller manager.

Flags, --help, --version and errors in flags are handled here. The rest is in run.py, which is imported only when
needed, as its imports take time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kcm.runtime.process.version import this_version

CONTROLLER_MANAGER = "kube-controller-manager"  # field manager of writes, and component of events
ONLY_VERSION = {"--version": "true", "--version=true": "true", "--version=raw": "raw"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process, and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) == 1 and arguments[0] in ONLY_VERSION:  # without loading the flags of controllers
        print(this_version().describe(ONLY_VERSION[arguments[0]]))
        return 0
    if arguments and arguments[0] == "journal":
        from kcm.actors.command.journal import command as journal_command
        from kcm.runtime.process.memory import collect_rarely

        collect_rarely()
        return journal_command.main(arguments[1:])
    if arguments and arguments[0] == "apiserver":
        from kcm.actors.command import apiserver

        return apiserver.main(arguments[1:])
    if arguments and arguments[0] == "envtest":
        from kcm.actors.command.envtest import command as envtest_command

        return envtest_command.main(arguments[1:])
    if arguments and arguments[0] == "snapshot":
        from kcm.actors.command import snapshot

        return snapshot.main(arguments[1:])
    if arguments and arguments[0] == "wait":
        from kcm.actors.command import wait

        return wait.main(arguments[1:])
    if arguments and arguments[0] == "ctl":
        from kcm.actors.command import ctl

        return ctl.main(arguments[1:])
    if arguments and arguments[0] == "why":
        from kcm.actors.command import why

        return why.main(arguments[1:])
    if arguments and arguments[0] == "top":
        from kcm.actors.command import top

        return top.main(arguments[1:])
    if arguments and arguments[0] == "completion":
        from kcm.actors.command import completion

        return completion.main(arguments[1:])
    if arguments and arguments[0] == "new":
        from kcm.actors.command import new_project

        return new_project.main(arguments[1:])
    if arguments and arguments[0] == "dev":
        from kcm.actors.command.development import command as development_command

        return development_command.main(arguments[1:])
    if arguments and arguments[0] == "manifests":
        from kcm.actors.command.generation import command as manifests_command

        return manifests_command.main(arguments[1:])
    return with_flags(arguments)


def with_flags(arguments: Sequence[str]) -> int:
    """Run the controller manager. Its flags include those of its controllers."""
    from kcm.actors.app.installed import installed_controllers
    from kcm.actors.command.main import run_program
    from kcm.actors.command.program import ControllerProgram
    from kcm.actors.controllers.built_in import BUILT_IN

    program = ControllerProgram(component=CONTROLLER_MANAGER, built_in=BUILT_IN, installed=installed_controllers())
    return run_program(program, arguments)
