"""Effects of --emulated-version and --min-compatibility-version in kube-controller-manager and in kcm.

Compared are the stage and state of every feature gate and the versions in the metrics, /statusz and /flagz.
"""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.programs import Program, ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server
from tests.support.certificates import Authority, Pair, client_context

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

OURS = {"TaintBasedEvictions"}  # a gate of old releases
# Gates that OpenShift's builds have beside upstream's.
NOT_UPSTREAM = {"MinimumKubeletVersion", "RouteExternalCertificate", "StoragePerformantSecurityPolicy"}
FAMILIES = r"^(?:kubernetes_feature_enabled|version_info)\{.*$"
STRUCTURED = "application/json;as=Statusz;v=v1beta1;g=config.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("emulated"), assets_or_skip()) as real:
        yield real


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("clients"), "clients")


@contextmanager
def manager(who: str, server: RealServer, *flags: str) -> Iterator[Program]:
    given = (f"--kubeconfig={server.kubeconfig}", "--bind-address=127.0.0.1", "--controllers=ttl-controller", *flags)
    log = server.directory / f"{who}.log"
    if who == "kcm":
        program = run_kcm(log, *given).program
    else:
        program = spawn([str(server.binaries / "kube-controller-manager"), *given], log)
    with ending(program):
        yield program


def page(port: int, path: str, pair: Pair, accept: str = "*/*") -> tuple[int, str]:
    """Return the status and text of a page; status 0 if the connection fails."""
    context = client_context(pair=pair)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=20.0, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def series(text: str) -> set[str]:
    """Return the series about versions and feature gates, with their values."""
    found = {re.sub(r"\.0$", "", line) for line in re.findall(FAMILIES, text, re.MULTILINE)}
    return {line for line in found if not any(f'name="{name}"' in line for name in OURS | NOT_UPSTREAM)}


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--emulated-version=1.35", "--feature-gates=ComponentStatusz=true"),
        ("--emulated-version=kube=1.34", "--min-compatibility-version=1.33"),
        ("--emulated-version=1.33", "--feature-gates=AllBeta=true"),
    ],
    ids=" ".join,
)
def test_gates_and_versions_are_those_of_the_emulated_release(
    server: RealServer, clients: Authority, flags: tuple[str, ...]
) -> None:
    root = clients.issue("root", groups=("system:masters",))
    metrics: list[set[str]] = []
    statusz: list[tuple[int, str]] = []
    flagz: list[int] = []
    for who in ("kube-controller-manager", "kcm"):
        port = free_port()
        with manager(who, server, f"--client-ca-file={clients.file}", f"--secure-port={port}", *flags) as program:
            until(lambda port=port: page(port, "/metrics", root)[0] == 200, "pages", why=program.text)  # type: ignore[misc]
            metrics.append(series(page(port, "/metrics", root)[1]))
            status, text = page(port, "/statusz", root, STRUCTURED)
            statusz.append((status, json.loads(text)["emulationVersion"] if status == 200 else ""))
            flagz.append(page(port, "/flagz", root)[0])
    assert metrics[0]
    assert sorted(metrics[1] - metrics[0]) == []
    assert sorted(metrics[0] - metrics[1]) == []
    assert statusz[0] == statusz[1]
    assert flagz[0] == flagz[1]
