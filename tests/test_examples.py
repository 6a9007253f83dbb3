"""The examples run as they are written."""

from __future__ import annotations

import ast
import io
import os
import re
import signal
import subprocess
import sys
import tokenize
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
import yaml

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.programs import free_port, until

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PATIENCE = 50.0  # seconds
NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)
# Seeded runs, and runs of the kopf twins, that only run if KCM_SEEDS is set, as bin/run-tests --all does.
FAULTS = "test_website_faults.py::test_website_matches_its_spec_after"
LEFT_OUT = (
    "test_backup.py::test_copy_is_made_and_deleted_over_http[kopf]",
    "test_database.py::test_database_is_upgraded_after_its_backup_and_repaired[kopf]",
    "test_tenant.py::test_tenant_is_provided_repaired_and_deleted[kopf]",
    *(f"{FAULTS}_faults[{seed}]" for seed in range(1, 4)),
    f"{FAULTS}_drawn_user_actions",
    *(f"test_certificate.py::test_secrets_match_the_certificates_after_faults[{seed}]" for seed in range(1, 4)),
    *(f"test_backup.py::test_copies_match_the_backups_after_faults[{seed}]" for seed in range(1, 4)),
    *(f"test_tenant_faults.py::test_tenant_matches_its_spec_after_faults[{seed}]" for seed in range(1, 4)),
    *(f"test_dns.py::test_zone_matches_the_records_after_faults[{seed}]" for seed in range(1, 4)),
    *(f"test_copies.py::test_copies_match_their_sources_after_faults[{seed}]" for seed in range(1, 4)),
    *(f"test_database.py::test_database_matches_its_spec_after_faults[{seed}]" for seed in range(1, 4)),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    running = launch(ServerSettings(directory=tmp_path_factory.mktemp("server")))
    yield running
    running.stop()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Create a directory as pip would: a package with a controller, and a broken package."""
    (tmp_path / "website_controller.py").write_text((EXAMPLES / "website_controller.py").read_text())
    for package, entry in (("website", "website_controller:WEBSITE"), ("broken", "no_such_module:SPEC")):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kcm.controllers]\n{package} = {entry}\n")
    return tmp_path


def start(*command: str, path: Path = ROOT) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Return the output up to the line with these words."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"{words!r} is not in what it printed:\n{seen}")


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    return output


@pytest.mark.timeout(300)  # also on a busy machine
def test_tests_of_the_examples_pass() -> None:
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    left_out = () if "KCM_SEEDS" in os.environ else LEFT_OUT
    deselected = [f"--deselect={test}" for test in left_out]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--assert=plain", *deselected, "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    complete = rf"^\d+ passed{f', {len(left_out)} deselected' if left_out else ''} in "
    assert re.search(complete, done.stdout, re.MULTILINE), f"none is skipped: {done.stdout}"


def code_lines(name: str, *, without: Collection[str] = ()) -> int:
    """Return the number of lines of code, without comments, docstrings and blank lines, and without these functions."""
    source = (EXAMPLES / name).read_text()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in without:
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(code - left_out)


@pytest.mark.parametrize("operator", ["tenant", "backup", "database"])
def test_page_for_users_of_kopf_counts_the_lines_of_both_operators(operator: str) -> None:
    twin = f"{operator}_operator_kopf.py"
    imports = [node for node in ast.walk(ast.parse((EXAMPLES / twin).read_text())) if isinstance(node, ast.ImportFrom)]
    shared = [name.name for node in imports if node.module == f"{operator}_operator" for name in node.names]
    kopf = str(code_lines(twin))
    if any(node.module == "kopf_objects" for node in imports):
        kopf += f" + {code_lines('kopf_objects.py')}"
    role = (EXAMPLES / f"{operator}_operator_kopf_role.yml").read_text().splitlines()
    by_hand = sum(not line.startswith("#") for line in role)
    row = f"| {operator} | {code_lines(f'{operator}_operator.py', without=shared)} | {kopf} | {by_hand} |"
    assert row in (ROOT / "docs" / "from-kopf.md").read_text()


def test_manager_runs_inside_another_program(server: EmbeddedServer) -> None:
    process = start("examples/embed.py", str(server.kubeconfig))
    assert "replicaset-controller" in read_until(process, "running: ")
    assert "interrupted: all actors are stopped" in end(process)
    assert process.returncode == 0


def test_program_with_an_embedded_cluster_serves_metrics() -> None:
    process = start("examples/embed.py")
    url = read_until(process, "metrics: ").split()[-1]
    read_until(process, "running: ")

    def is_shown() -> bool:
        with urllib.request.urlopen(url, timeout=PATIENCE) as page:
            return b"workqueue_depth" in page.read()

    until(is_shown, "a controller has started, and its queue has metrics")
    assert "interrupted: all actors are stopped" in end(process)
    assert process.returncode == 0


def is_served(api: Api, path: str) -> bool:
    try:
        return "items" in api.get(path)
    except OSError:
        return False


def lease_holder(server: EmbeddedServer, name: str) -> str:
    lease = Api(server.kubeconfig).get(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{name}")
    return str(lease["spec"].get("holderIdentity") or "")


def test_operator_is_a_program_with_flags_a_lease_and_pages(server: EmbeddedServer) -> None:
    api = Api(server.kubeconfig)
    (crd,) = yaml.safe_load_all((EXAMPLES / "tenant-crd.yml").read_text())
    api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    tenants = "/apis/example.com/v1/tenants"
    until(lambda: is_served(api, tenants), "tenants are served")
    api.request("POST", tenants, next(yaml.safe_load_all((EXAMPLES / "tenant.yml").read_text())))
    port = free_port()
    flags = (f"--kubeconfig={server.kubeconfig}", "--secure-port=0", f"--port={port}", "--address=127.0.0.1", "--v=1")
    process = start("examples/tenant_operator.py", *flags)
    read_until(process, 'Controller starting..." controller="tenant-controller"')
    name = yaml.safe_load((EXAMPLES / "tenant.yml").read_text())["metadata"]["name"]
    ready = until(lambda: api.get(f"{tenants}/{name}").get("status", {}).get("namespaces"), "it has namespaces")
    namespace = api.get(f"/api/v1/namespaces/{ready[0]}")
    assert {entry["manager"] for entry in namespace["metadata"]["managedFields"]} == {"tenant-operator"}
    assert lease_holder(server, "tenant-operator")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        metrics = page.read()
    assert b'leader_election_master_status{name="tenant-operator"} 1.0' in metrics
    informers = [line for line in metrics.splitlines() if line.startswith(b"informer_queued_items{")]
    assert informers
    assert [line for line in informers if b'name="tenant-operator"' not in line] == []
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert lease_holder(server, "tenant-operator") == "", "the lease is released"


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("--version", 0, "tenant-operator (kcm "),
        ("--help", 0, '(default "tenant-operator")'),
        ("--cluster-cidr=10.0.0.0/8", 1, "Error: unknown flag: --cluster-cidr"),
        ("tenant", 1, 'Error: "tenant-operator" does not take any arguments, got ["tenant"]'),
    ],
)
def test_flags_of_an_operator_are_its_own(flag: str, code: int, text: str) -> None:
    process = start("examples/tenant_operator.py", flag)
    output, _ = process.communicate(timeout=PATIENCE)
    assert text in " ".join(output.split())
    assert process.returncode == code


def test_installed_controllers_alone_do_not_compete_for_the_lease_of_the_cluster(
    server: EmbeddedServer, installed: Path
) -> None:
    command = ("-P", "-m", "kcm.actors.command", f"--kubeconfig={server.kubeconfig}", "--secure-port=0")
    process = start(*command, "--controllers=website", path=installed)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert (
        "Error: --controllers enables only controllers of other packages (website-controller), but the Lease "
        "kube-system/kube-controller-manager is the one of the cluster's controller manager" in output
    )
    named = "--leader-elect-resource-name=kube-controller-manager"
    process = start(*command, "--controllers=website", named, "--v=1", path=installed)
    read_until(process, 'Controller starting..." controller="website-controller"')
    end(process)
    assert process.returncode == 0


def test_installed_controller_is_enabled_by_the_controllers_flag(server: EmbeddedServer, installed: Path) -> None:
    flags = ("--secure-port=0", "--leader-elect=0", "--v=1")
    command = ("-P", "-m", "kcm.actors.command", f"--kubeconfig={server.kubeconfig}", *flags)
    process = start(*command, "--controllers=website", path=installed)
    seen = read_until(process, 'Controller starting..." controller="website-controller"')  # from --v=1
    end(process)
    assert process.returncode == 0
    assert (
        "controller broken (no_such_module:SPEC) is left out: ModuleNotFoundError: No module named 'no_such_module'"
        in seen
    )
    assert 'starting..." controller="deployment-controller"' not in seen
    process = start(*command, "--controllers=*,-website,-webside", path=installed)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert '"webside" is not in the list of known controllers' in output
    assert '"-website" is not' not in output
