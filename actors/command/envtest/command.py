"""`run-kcm envtest DIR`: write the programs `etcd` and `kube-apiserver` into a directory, for KUBEBUILDER_ASSETS.

The programs are small shell scripts that start this installation of kcm. Exit codes: 0, or 1 with one line of error.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = {"etcd": "etcd", "kube-apiserver": "kube_apiserver"}  # name of the program, and its module beside this one
KUBECTL = "kubectl"
PACKAGE = "kcm.actors.command.envtest"
MARK = "# Written by run-kcm envtest."  # line of a program that may be written again


class CannotWriteError(Exception):
    """A program cannot be written. The text is one line for the user."""


def main(argv: Sequence[str]) -> int:
    """Run the subcommand with the arguments that follow `envtest`. Returns the exit code."""
    arguments = parser().parse_args(argv)
    extras = []
    if arguments.garbage_collection:
        extras.append("--kcm-garbage-collection")
    if arguments.namespace_deletion:
        extras.append("--kcm-namespace-deletion")
    try:
        directory = write_programs(arguments.directory, extras=extras, kubectl=shutil.which(KUBECTL))
    except OSError as err:
        print(f"Error: cannot write to {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    except CannotWriteError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    print(f"export KUBEBUILDER_ASSETS={shlex.quote(str(directory))}")
    return 0


def write_programs(directory: Path, *, extras: Sequence[str] = (), kubectl: str | None) -> Path:
    """Write the programs and return the directory's absolute path. Existing programs of kcm are replaced.

    extras: further flags of `kube-apiserver`
    kubectl: path of kubectl, which is linked; None for no link

    Raises CannotWriteError if another file has the name of a program, and OSError.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        path = directory / name
        if path.is_symlink() or (path.exists() and MARK.encode() not in path.read_bytes()[:4096]):
            raise CannotWriteError(f"{path} exists and is not a program of `run-kcm envtest`: name another directory")
    for name, module in PROGRAMS.items():
        path = directory / name
        path.write_text(script(module, extras if name == "kube-apiserver" else ()))
        path.chmod(0o755)
    link = directory / KUBECTL
    if kubectl is not None and not link.exists() and Path(kubectl).absolute() != link:
        link.unlink(missing_ok=True)  # it may be dangling
        link.symlink_to(Path(kubectl).absolute())
    return directory


def script(module: str, extras: Sequence[str]) -> str:
    """Return the text of a program: a shell script that becomes the Python module."""
    python = shlex.quote(str(interpreter()))
    root = shlex.quote(str(Path(__file__).parents[4]))
    words = " ".join(["-P", "-m", f"{PACKAGE}.{module}", *map(shlex.quote, extras)])
    return (
        "#!/bin/sh\n"
        f"{MARK} To write it again: run-kcm envtest DIR\n"
        f"python={python}\n"
        '[ -x "$python" ] || { echo "Error: $python is missing: run run-kcm envtest again" >&2; exit 1; }\n'
        f'PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}} exec "$python" {words} "$@"\n'
    )


def interpreter() -> Path:
    """Return the Python that runs kcm: in a checkout, the link to the newest environment."""
    prefix = Path(sys.prefix)
    link = prefix.parent.parent / ".venv"
    if link.resolve() == prefix.resolve():
        return link / "bin" / "python"
    return Path(sys.executable)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm envtest",
        description="Write the programs etcd and kube-apiserver into a directory, so that a test suite that starts "
        "them (controller-runtime's envtest and others) runs on the embedded API server: set KUBEBUILDER_ASSETS to "
        "the directory. A kubectl on PATH is linked.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory of the programs, created if necessary")
    parser.add_argument(
        "--garbage-collection",
        action="store_true",
        help="delete dependents whose owner does not exist, which no program of envtest does",
    )
    parser.add_argument(
        "--namespace-deletion",
        action="store_true",
        help="delete the objects of deleted namespaces and then the namespaces, which no program of envtest does",
    )
    return parser
