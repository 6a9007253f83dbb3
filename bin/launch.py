"""Runs kcm in the environment that there is, if nothing has changed since bin/environment.py last looked at all of it.

    .venv/bin/python -I -S bin/launch.py EXTRA -- COMMAND ...     # as bin/environment.py, which has the words

environment.py reads and hashes files, and needs half of the standard library; here some hundred files and directories
are asked for their size and time. Where one of them has another, or is gone, environment.py takes over.
"""

import fcntl
import os
import signal
import sys

# Written by environment.py: where and for which extra; then size, time and path of what must not have changed.
FACTS = "kcm.facts"


def environment_of(root, extra):  # type: (str, str) -> str
    """The path of an environment that is as it was; "" without one."""
    try:
        environment = os.path.realpath(os.path.join(root, ".venv"))
        with open(os.path.join(environment, FACTS), encoding="utf-8") as file:
            made_for, has, *facts = file.read().split("\n")
        if made_for != root or has not in (extra, "dev"):
            return ""
        for fact in facts:
            size, changed, path = fact.split(" ", 2)
            status = os.stat(path)
            if status.st_mtime_ns != int(changed) or status.st_size != int(size):
                return ""
    except (OSError, ValueError):
        return ""
    return environment


def hold(environment):  # type: (str) -> bool
    """As environment.py's, for this process and the command that it becomes."""
    try:
        directory = os.open(environment, os.O_RDONLY)
        fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    os.set_inheritable(directory, True)
    return True


def main(arguments):  # type: (list[str]) -> None
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    extra, command = arguments[0], arguments[2:]
    environment = environment_of(root, extra)
    # Who removes one takes the facts first: what still has them and is held stays.
    if environment and hold(environment) and os.path.exists(os.path.join(environment, FACTS)):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})  # kcm lets them in
        python = os.path.join(environment, "bin", "python")
        os.execv(python, [python, *command[1:]])
    os.execvp("python3", ["python3", "-I", "-S", os.path.join(root, "bin", "environment.py"), *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
