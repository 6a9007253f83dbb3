"""Runs kcm in the existing environment, if nothing has changed since bin/environment.py last checked it.

    .venv/bin/python -I -S bin/launch.py EXTRA -- COMMAND ...     # the arguments of bin/environment.py

environment.py reads and hashes files, and imports half of the standard library; this program only compares the size and
time of about a hundred files and directories. If one has changed or is missing, environment.py takes over.
"""

import fcntl
import os
import signal
import sys

# Written by environment.py: root and extra; then size, time and path of each file that must be unchanged.
FACTS = "kcm.facts"


def environment_of(root, extra):  # type: (str, str) -> str
    """Return the path of an unchanged environment; "" without one."""
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
    """Lock an environment for this process and the command that it becomes; see environment.py."""
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
