"""Creates an environment for kcm, unless one is up to date, and runs a program in it.

    python3 bin/environment.py [EXTRA]                  # prints the path of its Python. EXTRA: as in setup.cfg, or ""
    python3 bin/environment.py EXTRA -- COMMAND ...     # becomes the command; `python` is the environment's

bin/launch.py does the latter in a fraction of the time if nothing has changed.

For the launchers beside this file. Standard library only, with the syntax of Python 3.6, so that an old Python prints
an error message instead of a SyntaxError.

An environment is a directory in .venvs/ that is never changed once it is complete, so that running programs keep their
packages; .venv is a link to the newest. A running program holds a shared lock (flock) on its environment. After a new
one is created, those without a lock are removed, except the previous one.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

OLDEST = (3, 11)
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
EXTRAS = ("", "dev")
LAYOUT = b"2"  # version of the layout; a different one means that the environment is created again
STAMP = "kcm.stamp"
CONTENTS = "kcm.contents"  # the files that were installed
FACTS = "kcm.facts"  # what bin/launch.py compares
PACKAGES = ("actors", "kcm", "protocols", "runtime")
# What Python files compiled for one interpreter depend on, and so what an environment's must not change in.
DESCRIBE = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform(), sys.prefix)"


class Unusable(Exception):
    """No environment can be created; the text contains the reason and a remedy."""


class EndedBySignal(Exception):
    """The process was ended by a signal, with this number."""


# What an environment is made from.


def requirements(extra: str) -> str:
    """Return the file with versions and hashes, which bin/lock-requirements writes."""
    return "requirements/{}.txt".format(extra or "run")


def fingerprint(root: Path, extra: str) -> str:
    """Return a hash of the files that determine an environment, and of their path."""
    digest = hashlib.sha256(LAYOUT + str(root).encode())  # scripts point to where the environment was made
    for name, content in (
        ("setup.cfg", packaging(root / "setup.cfg")),
        ("pyproject.toml", (root / "pyproject.toml").read_bytes()),
        ("requirements", (root / requirements(extra)).read_bytes()),
    ):
        digest.update(b"\0" + name.encode() + b"\0" + content)
    return digest.hexdigest()


def packaging(setup: Path) -> bytes:
    """Return the sections of setup.cfg about packaging, without those of tools."""
    chosen, kept = [], False
    for line in setup.read_bytes().splitlines(keepends=True):
        if line.startswith(b"["):
            kept = line.startswith((b"[metadata", b"[options"))
        if kept:
            chosen.append(line)
    return b"".join(chosen)


# Environments that there are.


def home(root: Path) -> Path:
    return root / ".venvs"


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def identity(python: Path) -> str:
    """Identify an interpreter's file by path, size and time. Raises OSError if it is missing."""
    status = os.stat(str(python))
    return f"{os.path.realpath(str(python))} {status.st_size} {status.st_mtime_ns}"


def described(python: Path) -> str:
    """Return the interpreter's description; "" if it does not run."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", DESCRIBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def write_stamp(environment: Path, *facts: str) -> None:
    """The last thing that is done to an environment. facts: fingerprint, extra, interpreter's identity, description."""
    write_whole(environment / STAMP, facts)


def write_whole(path: Path, lines: "Iterable[str]") -> None:
    beside = path.parent / f".{path.name}.{os.getpid()}"
    beside.write_text("\n".join(lines))
    os.replace(str(beside), str(path))


def installed(environment: Path) -> "tuple[list[str], list[str]]":
    """Directories and files of what is installed, without bytecode; paths from the environment on."""
    directories, files = [], []
    for at, inner, names in os.walk(str(environment / "lib")):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        here = os.path.relpath(at, str(environment))
        directories.append(here)
        files += [os.path.join(here, name) for name in names]
    return directories, files


def whole(environment: Path) -> bool:
    """Report whether all installed files exist."""
    try:
        names = (environment / CONTENTS).read_text().splitlines()
    except OSError:  # made by an older kcm
        return True
    return set(names) <= set(installed(environment)[1])


def note_facts(environment: Path, root: Path) -> None:
    """Record sizes and times, with which bin/launch.py recognizes an unchanged environment."""
    with contextlib.suppress(OSError, ValueError):
        _, has, _, _ = (environment / STAMP).read_text().split("\n")
        of_root = ("setup.cfg", "pyproject.toml", requirements(has))
        paths = [str(root / name) for name in of_root] + [str(python_of(environment))]
        paths += [str(environment / name) for name in installed(environment)[0]]
        facts = [str(root), has]
        for path in paths:
            status = os.stat(path)
            facts.append(f"{status.st_size} {status.st_mtime_ns} {path}")
        write_whole(environment / FACTS, facts)


def fits(environment: Path, root: Path, extra: str) -> bool:
    """Report whether an environment is complete and up to date, has the extra, and its Python is unchanged."""
    try:
        made_from, has, interpreter, description = (environment / STAMP).read_text().split("\n")
        if has not in (extra, "dev") or made_from != fingerprint(root, has):
            return False
        now = identity(python_of(environment))
    except (OSError, ValueError):
        return False
    if not whole(environment):
        return False
    if now == interpreter:
        return True
    # Another file: a repaired or upgraded Python, which fits if it is as compatible as a patch release.
    if described(python_of(environment)) != description:
        return False
    with contextlib.suppress(OSError):
        write_stamp(environment, made_from, has, now, description)
    return True


def hold(environment: Path, *, alone: bool = False) -> "int | None":
    """A lock on an environment, which ends with the processes that hold the descriptor. None: others hold it."""
    try:
        directory = os.open(str(environment), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(directory, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        os.close(directory)
        return None
    return directory


def find(root: Path, extra: str) -> "tuple[Path, int] | None":
    """An environment that fits, held."""
    try:
        there = sorted(home(root).iterdir())
    except OSError:
        return None
    for environment in there:
        if fits(environment, root, extra):
            held = hold(environment)
            if held is not None:
                if fits(environment, root, extra):  # it was not removed meanwhile
                    note_facts(environment, root)
                    return environment, held
                os.close(held)
    return None


# Making one.


def refuse_unusable_python(*, version: "tuple[int, ...]", has_ensurepip: bool) -> None:
    """Raises Unusable for a Python that is too old, or that cannot put pip into an environment."""
    this = "{} (Python {})".format(sys.executable, ".".join(map(str, version[:3])))
    if version < OLDEST:
        raise Unusable("Python {}.{} or newer is needed; {} is too old".format(*OLDEST, this))
    if not has_ensurepip:
        raise Unusable(
            f"{this} has no ensurepip, which a virtual environment needs; "
            "on Debian and Ubuntu: apt-get install python3-venv"
        )


def hear_signals() -> None:
    """Restore the default handling of signals."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def run(command: "list[str]", take: "Callable[[str], None] | None" = None) -> None:
    """Run a command. Raises Unusable if it fails.

    take: called with each line that the command prints, which is shown only if the command fails; without `take` all of
    it goes to standard error.

    The command has a session of its own, so that Ctrl-C reaches only this process, which then ends the command.
    """
    printed = []
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # a child that we do not know yet could not be ended
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if take is None else subprocess.PIPE,
        stderr=None if take is None else subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=hear_signals,
    ) as process:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            if take is not None:
                assert process.stdout is not None
                for line in process.stdout:
                    printed.append(line.decode(errors="replace"))
                    take(printed[-1])
            status = process.wait()
        except BaseException:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # what it leaves is half an environment, which is removed
            raise
    if status:
        print("".join(printed), end="", file=sys.stderr, flush=True)
        raise Unusable("this failed with status {}: {}".format(status, " ".join(command)))


STEPS = ("creating a virtual environment", "fetching packages", "installing packages", "installing kcm", "compiling")
EVERY = 10  # packages between two lines where standard error is no terminal


class Progress:
    """Progress of an installation: the current one of STEPS, and the number of packages that were fetched.

    A terminal gets one line that is overwritten, a log gets a line for each step and for every ten packages.
    """

    def __init__(self, packages: int) -> None:
        self._packages, self._fetched, self._step = packages, 0, -1
        self._live = sys.stderr.isatty()

    def next(self) -> None:
        self._step += 1
        self._show("")

    def take(self, line: str) -> None:
        """Count the packages that pip reports: "Processing FILE" of a local one, else "Collecting NAME"."""
        if line.startswith(("Collecting ", "Processing ")):
            self._fetched += 1
            if self._live or self._fetched % EVERY == 0:
                self._show(f": {self._fetched} of {self._packages}")
        elif line.startswith("Installing collected packages"):
            self.next()

    def end(self) -> None:
        """Erase the line on a terminal."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, count: str) -> None:
        text = f"kcm: {self._step + 1}/{len(STEPS)} {STEPS[self._step]}{count}"
        print(f"\r\x1b[K{text}" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True)


def install(root: Path, extra: str, environment: Path) -> None:
    """Fill a new directory. Raises Unusable.

    Installs wheels only, each with a hash in requirements/: building from source would run code that no hash covers.
    kcm itself comes last, built by the backend that is then installed.
    """
    listed = (root / requirements(extra)).read_text().splitlines()
    progress = Progress(sum("==" in line for line in listed))
    try:
        progress.next()
        run([sys.executable, "-m", "venv", str(environment)])
        pip = [str(python_of(environment)), "-m", "pip", "install", "--no-input", "--no-deps"]
        pip.append("--disable-pip-version-check")
        progress.next()
        packages = ["--require-hashes", "--only-binary=:all:", "--requirement", str(root / requirements(extra))]
        run([*pip, "--progress-bar=off", *packages], progress.take)
        progress.next()
        target = str(root) + (f"[{extra}]" if extra else "")
        run([*pip, "--quiet", "--quiet", "--no-index", "--no-build-isolation", "--editable", target])
        progress.next()
        # Where Python may write no bytecode itself (PYTHONDONTWRITEBYTECODE) it would compile at each start.
        run([str(python_of(environment)), "-m", "compileall", "-qq", *(str(root / name) for name in PACKAGES)])
    finally:
        progress.end()


def owner_of(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, OSError):  # the user has no name on this machine
        return f"uid {os.stat(str(path)).st_uid}"


def make(root: Path, extra: str) -> "tuple[Path, int]":
    """A new environment, held; .venv leads to it. Raises Unusable."""
    refuse_unusable_python(
        version=sys.version_info[:3], has_ensurepip=importlib.util.find_spec("ensurepip") is not None
    )
    if not os.access(str(root), os.W_OK):
        raise Unusable(
            f"{root} cannot be written to, and its environment in .venvs is missing or out of date; "
            "either its owner ({}) runs `python3 {}/bin/environment.py {}` once, or you use a copy of your own: "
            "cp -R {} ~/kcm, then ~/kcm/bin/run-kcm".format(owner_of(root), root, extra or "''", root)
        )
    home(root).mkdir(exist_ok=True)
    environment = Path(tempfile.mkdtemp(prefix="{}-".format(extra or "run"), dir=str(home(root))))
    os.chmod(str(environment), 0o755)
    held = hold(environment)
    assert held is not None, environment
    try:
        print(
            f"kcm: installing what it needs into {home(root)}; this takes a minute, once", file=sys.stderr, flush=True
        )
        install(root, extra, environment)
        python = python_of(environment)
        write_whole(environment / CONTENTS, installed(environment)[1])
        write_stamp(environment, fingerprint(root, extra), extra, identity(python), described(python))
    except BaseException:
        remove(environment)
        raise
    note_facts(environment, root)
    before = lead_to(root, environment)
    remove_unused(root, keep={environment, before})
    return environment, held


def lead_to(root: Path, environment: Path) -> "Path | None":
    """Let .venv be a link to this environment; returns the one before. A .venv that is not ours stays what it is."""
    link = root / ".venv"
    before = None
    if link.is_symlink():
        before = home(root) / os.path.basename(os.readlink(str(link)))
    elif link.exists():
        if not list(link.glob("kcm-*.stamp")):
            return None
        before = Path(tempfile.mkdtemp(prefix="before-", dir=str(home(root))))  # as we made them once
        os.replace(str(link), str(before))
    beside = root / f".venv.{os.getpid()}"
    os.symlink(os.path.join(home(root).name, environment.name), str(beside))
    os.replace(str(beside), str(link))
    return before


def remove_unused(root: Path, *, keep: "set[Path | None]") -> None:
    """Remove environments in which no program runs. The caller holds the lock of prepare()."""
    for environment in home(root).iterdir():
        held = hold(environment, alone=True) if environment not in keep else None
        if held is not None:
            for name in (FACTS, STAMP):
                with contextlib.suppress(OSError):
                    (environment / name).unlink()
            remove(environment)
            os.close(held)


def remove(environment: Path) -> None:
    """Again, while processes that were killed just now still write into it; what is left is removed another time."""
    for _ in range(10):
        shutil.rmtree(str(environment), ignore_errors=True)
        if not environment.exists():
            return
        time.sleep(0.1)


def prepare(root: Path, extra: str) -> "tuple[Path, int]":
    """An environment that is up to date, and the descriptor that holds it. Raises Unusable."""
    found = find(root, extra)
    if found is not None:
        return found
    # The lock is on the directory itself: it leaves no file behind, and ends with the process that holds it.
    directory = os.open(str(root), os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("kcm: waiting for another process that installs what it needs", file=sys.stderr, flush=True)
            fcntl.flock(directory, fcntl.LOCK_EX)
        return find(root, extra) or make(root, extra)  # the process that held the lock before us may have done it
    finally:
        os.close(directory)


# The command.


def become(command: "list[str]", environment: Path, held: int) -> None:
    """Replace this process by the command, which inherits the lock.

    kcm's own command starts with SIGINT blocked, and unblocks it once it has a handler: before, Python would print a
    traceback.
    """
    os.set_inheritable(held, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    environ = dict(os.environ)
    if command[0] == "python":
        command = [str(python_of(environment)), *command[1:]]
    else:
        environ["PATH"] = os.pathsep.join([str(environment / "bin"), environ.get("PATH", os.defpath)])
    if "kcm.actors.command" not in command:
        hear_signals()
    os.execvpe(command[0], command, environ)


def end_on_signals() -> None:
    """Raise EndedBySignal on signals. Launchers ignore SIGINT before, as a starting Python would print a traceback."""

    def handle(number: int, _frame: object) -> None:
        raise EndedBySignal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, handle)


def main(arguments: "list[str]") -> int:
    root = Path(__file__).resolve().parent.parent
    extra, command = (arguments[0] if arguments else ""), arguments[2:]
    try:
        end_on_signals()
        if extra not in EXTRAS:
            raise Unusable(f"there are no requirements for {extra!r}, only for {' and '.join(EXTRAS[1:])!r}")
        environment, held = prepare(root, extra)
        if command:
            become(command, environment, held)
        print(python_of(environment))
    except Unusable as reason:
        print(f"kcm: {reason}", file=sys.stderr)
        return 1
    except EndedBySignal as signalled:
        print("kcm: interrupted", file=sys.stderr)
        return 128 + int(signalled.args[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
