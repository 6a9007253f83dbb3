from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import resource
from kcm.runtime.process.descriptors import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_limit({most}), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    "soft, hard, most, raised",
    [(100, 300, 65_536, 300), (100, 300, 200, 200), (250, 300, 200, 250), (300, 300, 65_536, 300)],
)
def test_soft_limit_is_raised_up_to_the_hard_and_the_requested_limit(
    soft: int, hard: int, most: int, raised: int
) -> None:
    code = LOOK.format(soft=soft, hard=hard, most=most)
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == [str(raised), str(raised), str(hard)]
