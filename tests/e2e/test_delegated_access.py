"""Access to the manager's pages as an API server reviews it: tokens, roles, certificates and proxies of the cluster."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server
from tests.support.certificates import Authority, Pair, client_context

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SETTINGS = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"
POD = "/api/v1/namespaces/default/pods/web"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Rig:
    """A server with a scraper that may read the metrics, and a stranger who may not."""

    api: Api
    kubeconfig: Path
    clients: Authority
    proxies: Authority
    assets: Path | None

    def token(self, account: str) -> str:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.request("POST", f"{ACCOUNTS}/{account}/token", review)["status"]["token"])


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    clients, proxies = Authority(tmp_path, "clients"), Authority(tmp_path, "proxies")
    if request.param == "embedded":
        server = launch(ServerSettings(directory=tmp_path / "kcm", in_memory=True, client_ca_file=str(clients.file)))
        try:
            api = Api(server.kubeconfig)
            api.request("POST", SETTINGS, published(clients, proxies))
            prepare(api)
            yield Rig(api, server.kubeconfig, clients, proxies, None)
        finally:
            server.stop()
        return
    assets = assets_or_skip()
    (tmp_path / "real").mkdir()
    flags = (
        f"--client-ca-file={clients.file}",
        f"--requestheader-client-ca-file={proxies.file}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-allowed-names=front-proxy",
    )
    with real_server(tmp_path / "real", assets, *flags) as server:
        api = Api(server.kubeconfig)
        prepare(api)
        yield Rig(api, server.kubeconfig, clients, proxies, assets)


def published(clients: Authority, proxies: Authority) -> Object:
    """Return the ConfigMap that kube-apiserver writes with the same settings."""
    data = {
        "client-ca-file": clients.file.read_text(),
        "requestheader-client-ca-file": proxies.file.read_text(),
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-allowed-names": '["front-proxy"]',
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}


def prepare(api: Api) -> None:
    """Create the accounts, and a role as kube-prometheus has it."""
    for name in ("scraper", "stranger"):
        api.request("POST", ACCOUNTS, {"metadata": {"name": name}})
    rules = [{"nonResourceURLs": ["/metrics", "/metrics/slis"], "verbs": ["get"]}]
    api.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "scraper"}, "rules": rules})
    subjects: list[Object] = [
        {"kind": "ServiceAccount", "name": "scraper", "namespace": "default"},
        {"kind": "Group", "name": "scrapers", "apiGroup": "rbac.authorization.k8s.io"},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"}
    binding = {"metadata": {"name": "scraper"}, "roleRef": role, "subjects": subjects}
    api.request("POST", f"{RBAC}/clusterrolebindings", binding)


def asked(
    port: int, path: str, *, pair: Pair | None = None, headers: Mapping[str, str] = {}, method: str = "GET"
) -> tuple[int, str]:
    """Return the status of a page, and the message of a refusal; status 0 if the connection fails."""
    context = client_context(pair=pair)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, timeout=20.0, context=context) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode()
            return error.code, json.loads(text)["message"] if error.code in (401, 403) else text
    except OSError:
        return 0, ""


def answers(rig: Rig, port: int) -> dict[str, tuple[int, str]]:
    """Request pages with each kind of credential."""
    scraper, stranger = ({"Authorization": f"Bearer {rig.token(name)}"} for name in ("scraper", "stranger"))
    proxy = rig.proxies.issue("front-proxy")
    named = {"X-Remote-User": "joe", "X-Remote-Group": "scrapers"}
    return {
        "scraper, metrics": asked(port, "/metrics", headers=scraper),
        "scraper, SLIs": asked(port, "/metrics/slis", headers=scraper),
        "scraper, configuration": asked(port, "/configz", headers=scraper),
        "scraper, missing page": asked(port, "/nowhere", headers=scraper),
        # Reviewed as paths, not as resources: system:discovery permits GET of /api/* and /apis/* to every account.
        "scraper, path of a pod": asked(port, POD, headers=scraper),
        "scraper, path of a list": asked(port, "/apis/apps/v1/deployments?watch=1", headers=scraper),
        "scraper, deletion of a pod": asked(port, POD, headers=scraper, method="DELETE"),
        "anonymous, path of a pod": asked(port, POD),
        "stranger, metrics": asked(port, "/metrics", headers=stranger),
        "stranger, health": asked(port, "/healthz", headers=stranger),
        "invalid token, metrics": asked(port, "/metrics", headers={"Authorization": "Bearer none"}),
        "invalid token, health": asked(port, "/healthz", headers={"Authorization": "Bearer none"}),
        "basic, metrics": asked(port, "/metrics", headers={"Authorization": "Basic YTpi"}),
        "anonymous, metrics": asked(port, "/metrics"),
        "certificate of a group, metrics": asked(port, "/metrics", pair=rig.clients.issue("ann", groups=("scrapers",))),
        "certificate, metrics": asked(port, "/metrics", pair=rig.clients.issue("jane")),
        "administrator, configuration": asked(
            port, "/configz", pair=rig.clients.issue("root", groups=("system:masters",))
        ),
        "proxy, metrics": asked(port, "/metrics", pair=proxy, headers=named),
        "proxy, configuration": asked(port, "/configz", pair=proxy, headers=named),
    }


def delegating(kubeconfig: Path, port: int) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--leader-elect=false",
        "--controllers=ttl-controller",
    )


def forbidden(name: str, path: str, *, verb: str = "get") -> tuple[int, str]:
    return 403, f'forbidden: User "{name}" cannot {verb} path "{path}"'


def test_api_server_decides_who_reads_the_pages(rig: Rig, tmp_path: Path) -> None:
    port = free_port()
    manager = run_kcm(tmp_path / "kcm.log", *delegating(rig.kubeconfig, port))
    with ending(manager.program):
        until(lambda: asked(port, "/healthz")[0] == 200, "pages are served", why=manager.program.text)
        ours = answers(rig, port)
        assert ours == {
            "scraper, metrics": (200, ""),
            "scraper, SLIs": (200, ""),
            "scraper, configuration": forbidden("system:serviceaccount:default:scraper", "/configz"),
            "scraper, missing page": forbidden("system:serviceaccount:default:scraper", "/nowhere"),
            "scraper, path of a pod": (404, "404 page not found\n"),
            "scraper, path of a list": (404, "404 page not found\n"),
            "scraper, deletion of a pod": forbidden("system:serviceaccount:default:scraper", POD, verb="delete"),
            "anonymous, path of a pod": forbidden("system:anonymous", POD),
            "stranger, metrics": forbidden("system:serviceaccount:default:stranger", "/metrics"),
            "stranger, health": (200, ""),
            "invalid token, metrics": (401, "Unauthorized"),
            "invalid token, health": (401, "Unauthorized"),
            "basic, metrics": forbidden("system:anonymous", "/metrics"),
            "anonymous, metrics": forbidden("system:anonymous", "/metrics"),
            "certificate of a group, metrics": (200, ""),
            "certificate, metrics": forbidden("jane", "/metrics"),
            "administrator, configuration": (200, ""),
            "proxy, metrics": (200, ""),
            "proxy, configuration": forbidden("joe", "/configz"),
        }
        until(lambda: manager.metric("apiserver_delegated_authn_request_total", code="201") >= 2, "reviews are counted")
    if rig.assets is not None:
        assert ours == answers_of_the_real_manager(rig, rig.assets, tmp_path)


def answers_of_the_real_manager(rig: Rig, assets: Path, directory: Path) -> dict[str, tuple[int, str]]:
    port = free_port()
    command = [str(assets / "kube-controller-manager"), *delegating(rig.kubeconfig, port)]
    with ending(spawn(command, directory / "kube-controller-manager.log")) as program:
        until(lambda: asked(port, "/healthz")[0] == 200, "the real manager serves", why=program.text)
        # It may serve before it accepts certificates of the authorities in the ConfigMap.
        root, proxy = rig.clients.issue("root", groups=("system:masters",)), rig.proxies.issue("front-proxy")
        named = {"X-Remote-User": "joe", "X-Remote-Group": "scrapers"}
        until(lambda: asked(port, "/configz", pair=root)[0] == 200, "it knows the client authority", why=program.text)
        until(
            lambda: asked(port, "/metrics", pair=proxy, headers=named)[0] == 200,
            "it knows the authority of proxies",
            why=program.text,
        )
        return answers(rig, port)


@pytest.mark.parametrize("rig", ["embedded"], indirect=True)  # kube-apiserver writes its ConfigMap again
def test_changed_authorities_are_followed(rig: Rig, tmp_path: Path) -> None:
    port, others = free_port(), Authority(tmp_path, "others")
    pair = others.issue("eve", groups=("scrapers",))
    manager = run_kcm(tmp_path / "kcm.log", *delegating(rig.kubeconfig, port))
    with ending(manager.program):
        until(lambda: asked(port, "/healthz")[0] == 200, "pages are served", why=manager.program.text)
        assert asked(port, "/metrics", pair=pair)[0] != 200
        rig.api.request("PUT", f"{SETTINGS}/{NAME}", published(others, rig.proxies))
        until(lambda: asked(port, "/metrics", pair=pair) == (200, ""), "it is accepted", why=manager.program.text)
        rig.api.request("PUT", f"{SETTINGS}/{NAME}", {**published(others, others), "data": {"client-ca-file": "none"}})

        def refused() -> bool:
            assert asked(port, "/metrics", pair=pair) == (200, ""), "the previous authorities stay in use"
            return "TLS files not reloaded" in manager.program.text()

        until(refused, "the error is logged", why=manager.program.text)


@pytest.mark.parametrize("rig", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((), "unable to load configmap based request-header-client-ca-file"),
        (("--authentication-tolerate-lookup-failure",), ""),
        (("--authentication-skip-lookup",), ""),
    ],
)
def test_failed_lookup_ends_the_start_unless_tolerated(
    rig: Rig, tmp_path: Path, flags: tuple[str, ...], error: str
) -> None:
    config = yaml.safe_load(rig.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": rig.token("stranger")}
    limited = tmp_path / "stranger.kubeconfig"
    limited.write_text(yaml.safe_dump(config))
    port = free_port()
    chosen = tuple(
        flag.replace(str(rig.kubeconfig), str(limited)) if flag.startswith("--authentication") else flag
        for flag in delegating(rig.kubeconfig, port)
    )
    manager = run_kcm(tmp_path / "kcm.log", *chosen, *flags)
    with ending(manager.program):
        if error:
            until(lambda: not manager.program.running, "it ends", why=manager.program.text)
            assert error in manager.program.text()
            assert "--role=extension-apiserver-authentication-reader" in manager.program.text()
        else:
            until(lambda: asked(port, "/healthz")[0] == 200, "pages are served", why=manager.program.text)


def test_metrics_are_refused_while_the_api_server_is_away(tmp_path: Path) -> None:
    server = launch(ServerSettings(directory=tmp_path / "kcm", in_memory=True))
    port = free_port()
    program: Program | None = None
    try:
        api = Api(server.kubeconfig)
        prepare(api)
        token = Rig(api, server.kubeconfig, Authority(tmp_path, "a"), Authority(tmp_path, "b"), None).token("scraper")
        manager = run_kcm(tmp_path / "kcm.log", *delegating(server.kubeconfig, port))
        program = manager.program
        # A manager whose server goes away during its start would end.
        until(lambda: '"Caches are synced"' in manager.program.text(), "it works", why=manager.program.text)
        server.stop()
        bearer = {"Authorization": f"Bearer {token}"}
        assert asked(port, "/metrics", headers=bearer) == (401, "Unauthorized")
        assert asked(port, "/metrics")[0] == 500
        assert asked(port, "/healthz")[0] in (200, 500)  # served without a review, whatever the checks report
    finally:
        server.stop()
        if program is not None:
            with ending(program):
                pass
