"""Bootstrap tokens with kubectl: they sign kube-public/cluster-info, and go when they expire. On our cluster, and on a
real kube-apiserver, where the manager has no more rights than its bootstrap roles give it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bootstrap_tokens import Tokens, join_and_leave
from tests.e2e.kubectl import Api
from tests.e2e.programs import CONTROLLERS, managing
from tests.e2e.real_server import RealServer

pytestmark = pytest.mark.slow

FLAGS = (
    f"--controllers={','.join((*CONTROLLERS, 'bootstrapsigner', 'tokencleaner'))}",
    "--use-service-account-credentials",
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Api]:
    with managing(tmp_path / "kcm.log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0", *FLAGS):
        yield Api(tmp_path / "kcm" / "kubeconfig")


@pytest.fixture
def on_real_server(real: RealServer, tmp_path: Path) -> Iterator[Api]:
    flags = (f"--kubeconfig={real.manager_kubeconfig}", "--leader-elect=false", *FLAGS)
    with managing(tmp_path / "kcm.log", *flags) as manager:
        yield Api(real.kubeconfig)
    assert "forbidden" not in manager.program.text()
    Tokens(Api(real.kubeconfig)).clear()


@pytest.fixture(params=["own", pytest.param("on_real_server", marks=pytest.mark.cluster)])
def api(request: pytest.FixtureRequest) -> Api:
    found: Api = request.getfixturevalue(request.param)
    return found


def test_tokens_sign_as_long_as_they_live(api: Api) -> None:
    seen = join_and_leave(api)
    assert seen["three"] == ["abcdef", "expire", "silent"]
    data, tokens, labels = seen["left"]
    assert (data["more"], tokens, labels) == ("x", ["bootstrap-token-abcdef"], {"by": "user"})
