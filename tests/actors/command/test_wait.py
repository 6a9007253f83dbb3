"""`run-kcm wait` returns once its condition is met, or with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcm.actors.command import wait
from kcm.actors.command.embedded_directory import directory_of
from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.process.start_state import StartState
from kcm.runtime.simulation.clock import VirtualClock


class Script:
    """Another run-kcm, whose start advances by one step with each poll."""

    def __init__(self, directory: Path, steps: Iterator[Callable[[], object]]) -> None:
        self.directory, self.clock, self._steps = directory, VirtualClock(), steps

    def sleep(self) -> None:
        self.clock.advance_to(self.clock.monotonic() + 1.0)
        next(self._steps, lambda: None)()

    def run(self, timeout: float) -> float:
        """Wait, and return the seconds until the run is ready."""
        begun = self.clock.monotonic()
        wait.until_ready(self.directory, timeout=timeout, clock=self.clock, sleep=self.sleep)
        return self.clock.monotonic() - begun


def test_wait_returns_once_a_run_that_starts_later_is_ready(tmp_path: Path) -> None:
    starts: list[StartState] = []
    steps = [
        lambda: None,
        lambda: starts.append(StartState(tmp_path)),
        lambda: starts[0].set("2 of 3 nodes ready"),
        lambda: starts[0].set("", is_ready=True),
    ]
    assert Script(tmp_path, iter(steps)).run(60.0) == 4.0
    starts[0].close()


def test_wait_names_what_is_missing_after_the_timeout(tmp_path: Path) -> None:
    with StartState(tmp_path, "2 of 3 nodes ready"), pytest.raises(wait.NotReadyError) as refused:
        Script(tmp_path, iter(())).run(5.0)
    assert str(refused.value) == f"the cluster in {tmp_path} is not ready after 5 s: 2 of 3 nodes ready"


def test_wait_without_a_run_fails_after_the_timeout(tmp_path: Path) -> None:
    with pytest.raises(wait.NotReadyError, match="is not ready after 5 s: run-kcm is not running with this directory"):
        Script(tmp_path / "missing", iter(())).run(5.0)


def test_wait_fails_at_once_when_the_run_ends(tmp_path: Path) -> None:
    start = StartState(tmp_path, "manifests are not applied")
    script = Script(tmp_path, iter([lambda: None, start.close]))
    with pytest.raises(wait.NotReadyError, match="ended before the cluster was ready: manifests are not applied"):
        script.run(60.0)
    assert script.clock.monotonic() < 10.0


def test_wait_fails_at_once_when_a_run_ends_before_it_is_seen(tmp_path: Path) -> None:
    StartState(tmp_path, "an earlier run").close()
    script = Script(tmp_path, iter([lambda: None, lambda: StartState(tmp_path).close()]))
    with pytest.raises(wait.NotReadyError, match=r"ended before the cluster was ready$"):
        script.run(60.0)
    assert script.clock.monotonic() < 10.0


@pytest.mark.parametrize(
    "arguments, error",
    [(["--timeout=soon"], "invalid duration"), (["--timeout=-1s"], "must not be negative"), (["now"], "unrecognized")],
)
def test_invalid_arguments_exit_with_2(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        wait.main(arguments)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def test_cluster_in_memory_has_its_own_temporary_directory() -> None:
    server = EmbeddedServerOptions(in_memory=True)
    with ExitStack() as closing:
        first, second = (directory_of(server, given=(), closing=closing) for _ in range(2))
        assert first != second
        assert first.is_dir()
        assert first.stat().st_mode & 0o777 == 0o700
    assert not first.exists()
    with ExitStack() as closing:
        named = EmbeddedServerOptions(in_memory=True, directory="here")
        assert directory_of(named, given={"embedded-dir"}, closing=closing) == Path("here")
        assert directory_of(EmbeddedServerOptions(), given=(), closing=closing) == Path(".kcm")
