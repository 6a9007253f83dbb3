"""The operator of examples/copy_operator.py between two clusters of bin/run-kcm, one of which is killed."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubectl import Api
from tests.e2e.programs import (
    CONTROLLERS,
    ROOT,
    Manager,
    ending,
    free_port,
    managing,
    run_kcm,
    spawn,
    until,
    until_working,
)

FLAGS = (f"--controllers={','.join(CONTROLLERS)}", "--hollow-nodes=0")
OPERATOR = ROOT / "examples" / "copy_operator.py"
LABEL = "example.com/copied=true"


def merged(clusters: dict[str, Path], file: Path) -> Path:
    """Write a kubeconfig with a context for each cluster."""
    parts: dict[str, list[Any]] = {"clusters": [], "users": [], "contexts": []}
    for name, kubeconfig in clusters.items():
        config = yaml.safe_load(kubeconfig.read_text())
        parts["clusters"].append({"name": name, "cluster": config["clusters"][0]["cluster"]})
        parts["users"].append({"name": name, "user": config["users"][0]["user"]})
        parts["contexts"].append({"name": f"my-{name}", "context": {"cluster": name, "user": name}})
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts}))
    return file


def kubectl(kubeconfig: Path, cluster: str, *arguments: str) -> str:
    flags = (f"--kubeconfig={kubeconfig}", f"--context=my-{cluster}", f"--cache-dir={kubeconfig.parent / 'cache'}")
    done = subprocess.run(["kubectl", *flags, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def data_of(kubeconfig: Path, name: str) -> Any:
    """Return the data of a ConfigMap, None if it does not exist."""
    try:
        return Api(kubeconfig).get(f"/api/v1/namespaces/default/configmaps/{name}").get("data")
    except urllib.error.HTTPError as err:
        if err.code != 404:
            raise
        return None


def test_operator_copies_between_two_clusters_and_outlives_one(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("hub", "edge")}
    edge_port = free_port()
    edge_flags = (f"--embedded-dir={folders['edge']}", f"--embedded-port={edge_port}", *FLAGS)
    edge = run_kcm(tmp_path / "edge.log", *edge_flags)
    with managing(tmp_path / "hub.log", f"--embedded-dir={folders['hub']}", "--embedded-port=0", *FLAGS):
        with ending(edge.program):
            until_working(edge)
            config = merged({name: folder / "kubeconfig" for name, folder in folders.items()}, tmp_path / "both")
            on_edge = folders["edge"] / "kubeconfig"
            port = free_port()
            flags = (f"--kubeconfig={config}", "--cluster-contexts=hub=my-hub,edge=my-edge", "--v=1")
            pages = ("--secure-port=0", "--address=127.0.0.1", f"--port={port}")
            operator = spawn(
                [sys.executable, "-P", str(OPERATOR), *flags, *pages, f"--journal={tmp_path / 'journal'}"],
                tmp_path / "operator.log",
            )
            with ending(operator):
                manager = Manager(operator, f"http://127.0.0.1:{port}")
                kubectl(config, "hub", "create", "configmap", "settings", "--from-literal=a=1")
                kubectl(config, "hub", "label", "configmap", "settings", LABEL)
                until(lambda: data_of(on_edge, "settings") == {"a": "1"}, "copied", why=operator.text)
                kubectl(config, "edge", "delete", "configmap", "settings")
                until(lambda: data_of(on_edge, "settings") == {"a": "1"}, "repaired", why=operator.text)
                leases = kubectl(config, "hub", "get", "lease", "copy-operator", "-o", "name")
                assert leases.strip() == "lease.coordination.k8s.io/copy-operator"

                edge.program.kill()
                kubectl(config, "hub", "patch", "configmap", "settings", "-p", '{"data":{"a":"2"}}')
                until(lambda: reachable(manager, "edge") == 0.0, "the outage is noticed", why=operator.text)
                assert reachable(manager, "hub") == 1.0
                status, page = manager.get("/healthz?verbose")
                assert (status, "[-]cluster-edge" in page, "[+]cluster-hub" in page) == (200, True, True), page

                again = run_kcm(tmp_path / "edge-again.log", *edge_flags)
                with ending(again.program):
                    until_working(again)
                    until(lambda: data_of(on_edge, "settings") == {"a": "2"}, "caught up", why=operator.text)
                    kubectl(config, "hub", "label", "configmap", "settings", f"{LABEL.partition('=')[0]}-")
                    until(lambda: data_of(on_edge, "settings") is None, "deleted", why=operator.text)
                assert operator.terminate() == 0, operator.text()
                replayed = replay(tmp_path / "journal")
                assert "No difference." in replayed, replayed


def replay(journal: Path) -> str:
    """Return what `run-kcm journal replay` prints for the operator's controller."""
    command = ["kcm.actors.command", "journal", "replay", str(journal), "--actor=copy-controller"]
    named = f"--specs={OPERATOR}:COPIER"
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command, named], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def reachable(manager: Manager, cluster: str) -> float:
    return manager.metric("kcm_cluster_reachable", cluster=cluster)


@pytest.mark.slow
def test_development_loop_starts_a_cluster_for_each_name(tmp_path: Path) -> None:
    operator = tmp_path / "copy_operator.py"
    operator.write_text(OPERATOR.read_text())
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "dev", f"{operator}:COPIER"]
    with ending(spawn(command, tmp_path / "dev.log", cwd=tmp_path)) as loop:
        until(lambda: "running copy-controller" in loop.text(), "it runs", why=loop.text)
        started = re.findall(r"started the cluster (\w+): export KUBECONFIG=(\S+)", loop.text())
        assert [name for name, _ in started] == ["hub", "edge"]
        config = merged({name: Path(kubeconfig) for name, kubeconfig in started}, tmp_path / "both")
        on_edge = Path(dict(started)["edge"])
        kubectl(config, "hub", "create", "configmap", "settings", "--from-literal=a=1")
        kubectl(config, "hub", "label", "configmap", "settings", LABEL)
        until(lambda: data_of(on_edge, "settings") == {"a": "1"}, "copied", why=loop.text)
        edited = OPERATOR.read_text().replace('"labels": COPY}', '"labels": {**COPY, "edited": "yes"}}')
        assert edited != OPERATOR.read_text()
        operator.write_text(edited)
        until(lambda: "restarted copy-controller" in loop.text(), "the code is replaced", why=loop.text)
        labelled = ("get", "configmap", "--selector=edited=yes", "-o", "name")
        until(lambda: "configmap/settings" in kubectl(config, "edge", *labelled), "copied again", why=loop.text)
