"""Makes .venv with what kcm needs, when it is missing or out of date, and prints the path of its Python.

    python3 bin/environment.py [EXTRA]      # EXTRA: an extra of setup.cfg, as "dev"

For the launchers beside this file. Standard library only, and no syntax newer than Python 3.6's, so that an old
Python gets to say what is wrong.
"""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
DECIDES = ("setup.cfg", "pyproject.toml", "constraints.txt")  # a change in one of them means: install again


class Unusable(Exception):
    """No environment can be made here; the text says why and what to do."""


def fingerprint(root: Path) -> str:
    """What an environment is made from: changes when one of the files above does, or the place they are in."""
    digest = hashlib.sha256(str(root).encode())  # a moved .venv has scripts that point to where it was
    for name in DECIDES:
        digest.update(b"\0" + name.encode() + b"\0" + (root / name).read_bytes())
    return digest.hexdigest()


def stamp(root: Path, extra: str) -> Path:
    """The file that says with which fingerprint an extra was installed; "base" stands for none."""
    return root / ".venv" / "kcm-{}.stamp".format(extra or "base")


def venv_python(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def is_current(root: Path, extra: str) -> bool:
    mark = stamp(root, extra)
    return venv_python(root).exists() and mark.exists() and mark.read_text() == fingerprint(root)


def refuse_unusable_python(*, version: "tuple[int, ...]", has_ensurepip: bool) -> None:
    """Raises Unusable for a Python that is too old, or that cannot put pip into an environment."""
    this = "{} (Python {})".format(sys.executable, ".".join(map(str, version[:3])))
    if version < OLDEST:
        raise Unusable("kcm needs Python {}.{} or newer; {} is too old".format(*OLDEST, this))
    if not has_ensurepip:
        raise Unusable(
            f"{this} has no ensurepip, which a virtual environment needs; "
            "on Debian and Ubuntu: apt-get install python3-venv"
        )


def run(command: "list[str]") -> None:
    """Raises Unusable when the command fails; what it prints goes to standard error."""
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), check=False).returncode
    if status:
        raise Unusable("this failed with status {}: {}".format(status, " ".join(command)))


def install(root: Path, extra: str) -> None:
    """Make or refresh .venv with the extra. Raises Unusable."""
    venv, python = root / ".venv", venv_python(root)
    if not os.access(str(root), os.W_OK):
        raise Unusable(f"{root} cannot be written to, and its .venv is missing or out of date")
    print(f"kcm: installing what it needs into {venv}; this takes a minute, once", file=sys.stderr, flush=True)
    if not (venv / "pyvenv.cfg").exists() or not python.exists():
        refuse_unusable_python(
            version=sys.version_info[:3], has_ensurepip=importlib.util.find_spec("ensurepip") is not None
        )
        run([sys.executable, "-m", "venv", "--clear", str(venv)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check", "--no-input"]
    target = str(root) + (f"[{extra}]" if extra else "")
    run([*pip, "--constraint", str(root / "constraints.txt"), "--editable", target])
    for installed in {"", extra}:
        stamp(root, installed).write_text(fingerprint(root))


def prepare(root: Path, extra: str) -> Path:
    """The Python of an environment that is up to date. Raises Unusable."""
    if is_current(root, extra):
        return venv_python(root)
    # The lock is on the directory itself: it leaves no file behind, and ends with the process that holds it.
    directory = os.open(str(root), os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        if not is_current(root, extra):  # the process that held the lock before us may have done it
            install(root, extra)
    finally:
        os.close(directory)
    return venv_python(root)


def main(arguments: "list[str]") -> int:
    root = Path(__file__).resolve().parent.parent
    try:
        print(prepare(root, arguments[0] if arguments else ""))
    except Unusable as reason:
        print(f"kcm: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
