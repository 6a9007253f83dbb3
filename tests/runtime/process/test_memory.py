"""Settings of the allocator and the garbage collector. Settings that cannot be undone are tested in subprocesses."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref

import pytest

from kcm.protocols.errors import clear_frames
from kcm.runtime.process.memory import COLLECT_EVERY, COLLECT_FIRST, SETTLING, RareGarbage, collect_afterwards

HEAPS = """
import ctypes, os, tempfile, threading
from kcm.runtime.process.memory import keep_one_heap

if {kept}:
    keep_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
everybody = threading.Barrier(4)

def take():
    everybody.wait()
    libc.malloc(10_000)
    everybody.wait()

threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "info")
    file = libc.fopen(path.encode(), b"w")
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(open(path).read().count("<heap nr="))
"""


def heaps(*, kept: bool) -> int:
    done = subprocess.run([sys.executable, "-c", HEAPS.format(kept=kept)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap, or another way")
def test_all_threads_share_one_heap() -> None:
    assert heaps(kept=True) == 1
    assert heaps(kept=False) > 1


LARGE_BLOCKS = """
import ctypes
from kcm.runtime.process.memory import LARGE, keep_large_blocks_outside_the_heap

if {kept}:
    keep_large_blocks_outside_the_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.sbrk.restype, libc.sbrk.argtypes = [ctypes.c_void_p], ctypes.c_void_p, [ctypes.c_ssize_t]
libc.free(libc.malloc(LARGE))  # the first block is a mapping in any case
before = libc.sbrk(0)
for _ in range(64):
    libc.malloc(LARGE)
print((libc.sbrk(0) - before) // LARGE)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have another way")
@pytest.mark.parametrize(("kept", "blocks"), [(True, range(2)), (False, range(60, 70))])
def test_large_blocks_do_not_extend_the_heap(kept: bool, blocks: range) -> None:
    code = LARGE_BLOCKS.format(kept=kept)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) in blocks


class Ring:
    """Object with a reference to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_freed_at_the_end_and_collector_settings_are_restored() -> None:
    threshold = gc.get_threshold()
    with collect_afterwards():
        left = weakref.ref(Ring())
        assert left() is not None
    assert left() is None
    assert gc.get_threshold() == threshold


EXCLUDED = """
import gc
from kcm.runtime.process.memory import collect_afterwards

kept = [[] for _ in range(1000)]
gc.freeze()
with collect_afterwards():
    pass
print(gc.get_freeze_count())
"""


def test_objects_that_are_excluded_from_collections_stay_excluded() -> None:
    done = subprocess.run([sys.executable, "-c", EXCLUDED], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 1000


def test_collector_settings_are_restored_after_an_error() -> None:
    threshold = gc.get_threshold()
    with pytest.raises(ValueError, match="within"), collect_afterwards():
        raise ValueError("within")
    assert gc.get_threshold() == threshold


def test_garbage_is_collected_once_after_the_last_replacement() -> None:
    garbage = RareGarbage(now=0.0)
    gc.disable()
    try:
        first = weakref.ref(Ring())
        garbage.look(0, 0.0)
        garbage.look(1, 1.0)
        garbage.look(2, 3.0)
        garbage.look(2, 1.0 + SETTLING)
        assert first() is not None, "the second replacement is not long enough ago"
        garbage.look(2, 3.0 + SETTLING)
        assert first() is None
        second = weakref.ref(Ring())
        garbage.look(2, 4.0 + SETTLING)
        assert second() is not None, "nothing was replaced since the last collection"
        garbage.look(2, 3.0 + SETTLING + COLLECT_EVERY)
        assert second() is None
    finally:
        gc.enable()


def test_garbage_of_the_start_is_collected_soon() -> None:
    garbage = RareGarbage(now=10.0)
    gc.disable()
    try:
        ring = weakref.ref(Ring())
        garbage.look(0, 9.0 + COLLECT_FIRST)
        assert ring() is not None
        garbage.look(0, 10.0 + COLLECT_FIRST)
        assert ring() is None
    finally:
        gc.enable()


def test_handled_exceptions_refer_to_nothing_of_the_ended_functions() -> None:
    def fail(ring: Ring) -> None:
        error = ValueError("first")
        raise error

    def fail_again(ring: Ring) -> None:
        try:
            fail(ring)
        except ValueError as err:
            second = KeyError("second")
            raise second from err

    gc.disable()
    try:
        ring = Ring()
        ring.itself = None  # type: ignore[assignment]
        left = weakref.ref(ring)
        with pytest.raises(KeyError) as raised:
            fail_again(ring)
        del ring
        assert left() is not None
        clear_frames(raised.value)
        assert left() is None
        assert raised.value.__traceback__ is not None, "the lines remain"
    finally:
        gc.enable()
