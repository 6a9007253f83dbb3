"""Selection of a cloud provider with --cloud-provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import InvalidOptionsError
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.cloud.providers import CloudError, has_provider, is_known, load_provider


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with two cloud providers, one of which is broken."""
    (tmp_path / "acme_kcm.py").write_text(
        "from kcm.runtime.cloud.fake import FakeCloud\n"
        "def provider(config):\n"
        "    cloud = FakeCloud()\n"
        "    cloud.instances.terminate(*config.split())\n"
        "    return cloud\n"
        "def broken(config):\n"
        "    raise KeyError('no credentials')\n"
    )
    info = tmp_path / "acme_kcm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-kcm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kcm.cloud_providers]\nacme = acme_kcm:provider\nbroken = acme_kcm:broken\nmissing = acme_kcm:missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", ["", "external"])
def test_no_cloud_is_called_without_a_provider_or_with_an_external_one(name: str) -> None:
    assert not has_provider(name)
    assert load_provider(name, config_file="") is None


def test_fake_provider_is_always_available() -> None:
    assert isinstance(load_provider("fake", config_file=""), FakeCloud)


@pytest.mark.usefixtures("installed")
def test_provider_of_a_package_receives_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "cloud.conf"
    config.write_text("n1 n2")
    assert all(map(is_known, ("", "external", "fake", "acme")))
    assert not is_known("aws")
    cloud: CloudProvider | None = load_provider("acme", config_file=str(config))
    assert cloud is not None
    assert cloud.instances is not None
    assert not cloud.instances.exists({"metadata": {"name": "n1"}})
    assert cloud.instances.exists({"metadata": {"name": "n3"}})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "config", "error"),
    [
        ("aws", "", "no installed package has a cloud provider 'aws'"),
        ("broken", "", "cloud provider 'broken' could not be initialized: .*no credentials"),
        ("missing", "", "cloud provider 'missing' could not be initialized: .*missing"),
        ("acme", "/nowhere/cloud.conf", "cloud provider 'acme' could not be initialized: .*cloud.conf"),
    ],
)
def test_unusable_provider_is_reported_in_one_line(name: str, config: str, error: str) -> None:
    with pytest.raises(CloudError, match=error) as raised:
        load_provider(name, config_file=config)
    assert "\n" not in str(raised.value)


REFUSAL = (
    'cloud provider "aws" was specified, but built-in cloud providers are disabled. '
    "Please set --cloud-provider=external and migrate to an external cloud provider"
)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--cloud-provider=fake"], None),
        (["--cloud-provider=acme"], None),
        (["--cloud-provider=external"], None),
        (["--cloud-provider=aws"], REFUSAL),
        (["--cloud-provider=fake", "--cluster-cidr=here"], "invalid CIDR address: here"),
        (["--cloud-provider=fake", "--cluster-cidr=here", "--configure-cloud-routes=false"], None),
        (["--cluster-cidr=here"], None),
        (["--cloud-provider=fake", "--cluster-cidr=here", "--allocate-node-cidrs"], "invalid CIDR address: here"),
    ],
)
def test_flags_are_checked_against_the_available_providers(flags: list[str], fault: str | None) -> None:
    if fault is None:
        read_options(flags)
        return
    with pytest.raises(InvalidOptionsError) as raised:
        read_options(flags)
    assert str(raised.value).count(fault) == 1
