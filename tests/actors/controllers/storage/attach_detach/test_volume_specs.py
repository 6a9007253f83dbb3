"""Tests of the volumes that the attach/detach controller resolves, and of their translation to CSI.

Source of the cases: kubernetes v1.36 staging/src/k8s.io/csi-translation-lib/plugins/*_test.go,
pkg/controller/volume/attachdetach/util/util_test.go, pkg/volume/util/util_test.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.controllers.storage.attach_detach import SPEC
from kcm.actors.controllers.storage.attach_detach.csi_translation import compatible_modes, translate
from kcm.actors.controllers.storage.attach_detach.decisions import new_attachment
from kcm.actors.controllers.storage.attach_detach.volume_specs import (
    has_volumes,
    is_attachable,
    of_persistent_volume,
    of_pod_volume,
    source_of,
)
from kcm.actors.controllers.storage.shared.claimed_volumes import UnresolvedError
from kcm.actors.simulation.driver import Bench
from kcm.protocols.csi import CsiSource, attachment_name
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.runtime.tables.tables import Tables
from tests.actors.controllers.storage.attach_detach.scene import DISK, DRIVER, claim, disk, pod

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
DISK_URI = "/subscriptions/12/resourceGroups/23/providers/Microsoft.Compute/disks/disk"


def translated(source: Mapping[str, Any], volume: Object | None = None, **where: str) -> Any:
    return translate(source, volume, name=where.get("name", ""), namespace=where.get("namespace", ""))


def persistent(source: Mapping[str, Any], **meta: Any) -> Object:
    modes = meta.pop("modes", ["ReadWriteOnce"])
    reference = {"claimRef": {"namespace": "web"}} if meta.pop("claimed", True) else {}
    return {"metadata": {"name": "pv", **meta}, "spec": {**source, "accessModes": modes, **reference}}


@pytest.mark.parametrize(
    ("source", "name", "handle", "modes", "csi"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "vol-02399794d890f9375"}},
            "ebs.csi.aws.com-vol-02399794d890f9375",
            "vol-02399794d890f9375",
            ("ReadWriteOnce",),
            {"volumeAttributes": {"partition": "0"}},
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "aws:///vol-02399794d890f9375", "partition": 2, "fsType": "xfs"}},
            "ebs.csi.aws.com-vol-02399794d890f9375",
            "vol-02399794d890f9375",
            ("ReadWriteOnce",),
            {"volumeAttributes": {"partition": "2"}, "fsType": "xfs"},
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/vol-02399794d890f9375", "readOnly": True}},
            "ebs.csi.aws.com-vol-02399794d890f9375",
            "vol-02399794d890f9375",
            ("ReadWriteOnce",),
            {"volumeAttributes": {"partition": "0"}, "readOnly": True},
        ),
        (
            {"gcePersistentDisk": {"pdName": "test-disk", "fsType": "ext4"}},
            "pd.csi.storage.gke.io-test-disk",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/test-disk",
            ("ReadWriteOnce",),
            {"volumeAttributes": {"partition": ""}, "fsType": "ext4"},
        ),
        (
            {"gcePersistentDisk": {"pdName": "test-disk", "partition": 1, "readOnly": True}},
            "pd.csi.storage.gke.io-test-disk",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/test-disk",
            ("ReadOnlyMany",),
            {"volumeAttributes": {"partition": "1"}, "readOnly": True},
        ),
        (
            {"azureDisk": {"diskURI": DISK_URI, "kind": "Managed", "fsType": "ext4", "cachingMode": "None"}},
            DISK_URI,
            DISK_URI,
            ("ReadWriteOnce",),
            {"fsType": "ext4", "volumeAttributes": {"kind": "Managed", "cachingmode": "None", "fstype": "ext4"}},
        ),
        (
            {"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "share", "readOnly": True}},
            "#acc#share#data#web",
            "#acc#share#data#web",
            ("ReadWriteMany",),
            {
                "readOnly": True,
                "volumeAttributes": {"sharename": "share"},
                "nodeStageSecretRef": {"name": "azure-storage-account-acc-secret", "namespace": "web"},
            },
        ),
        (
            {"cinder": {"volumeID": "vol1"}},
            "cinder.csi.openstack.org-vol1",
            "vol1",
            ("ReadWriteOnce",),
            {},
        ),
        (
            {"vsphereVolume": {"volumePath": "[ds] path", "fsType": "ext4", "storagePolicyName": "fast"}},
            "csi.vsphere.vmware.com-[ds] path",
            "[ds] path",
            ("ReadWriteOnce",),
            {"fsType": "ext4", "volumeAttributes": {"storagepolicyname": "fast"}},
        ),
        (
            {"portworxVolume": {"volumeID": "id", "fsType": "ext4", "readOnly": True}},
            "pxd.portworx.com-id",
            "id",
            ("ReadOnlyMany",),
            {"fsType": "ext4"},
        ),
    ],
)
def test_inline_volumes_are_translated(
    source: Object, name: str, handle: str, modes: tuple[str, ...], csi: Object
) -> None:
    found = translated(source, name="data", namespace="web")
    assert (found.name, found.handle, found.modes) == (name, handle, modes)
    assert found.source == {"driver": found.driver, "volumeHandle": handle, **csi}


@pytest.mark.parametrize(
    ("volume", "handle"),
    [
        (persistent({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}), "vol-1"),
        (
            persistent({"gcePersistentDisk": {"pdName": "d"}}, labels={"topology.kubernetes.io/zone": "us-a-1"}),
            "projects/UNSPECIFIED/zones/us-a-1/disks/d",
        ),
        (
            persistent(
                {"gcePersistentDisk": {"pdName": "d"}},
                labels={"failure-domain.beta.kubernetes.io/zone": "us-a-1__us-a-2"},
            ),
            "projects/UNSPECIFIED/regions/us-a/disks/d",
        ),
        (
            persistent({"gcePersistentDisk": {"pdName": "d"}}),
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        (persistent({"azureDisk": {"diskURI": DISK_URI}}), DISK_URI),
        (persistent({"azureFile": {"secretName": "secret", "shareName": "share"}}), "#secret#share#pv#web"),
        (
            persistent(
                {"azureFile": {"secretName": "s", "shareName": "share", "secretNamespace": "ns"}},
                annotations={"kubernetes.io/azure-file-resource-group": "rg"},
            ),
            "rg#s#share#pv#ns",
        ),
        (persistent({"cinder": {"volumeID": "vol1"}}), "vol1"),
        (persistent({"vsphereVolume": {"volumePath": "path"}}), "path"),
        (persistent({"portworxVolume": {"volumeID": "id"}}), "id"),
    ],
)
def test_persistent_volumes_are_translated_under_their_own_name(volume: Object, handle: str) -> None:
    found = translated(volume["spec"], volume)
    assert (found.name, found.handle, found.modes) == ("pv", handle, ("ReadWriteOnce",))


@pytest.mark.parametrize(
    ("source", "volume", "error"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://us-west-2a/02399794d890f9375"}}, None, "Invalid format for AWS"),
        ({"azureDisk": {"diskURI": "https://blob/vhds/disk", "kind": "Dedicated"}}, None, "is not supported in csi"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            persistent({}, labels={"topology.kubernetes.io/zone": "us-a-1__eu-b-1"}),
            "multiple or no regions",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            persistent({}, labels={"topology.kubernetes.io/zone": "a__b"}),
            "zone in unexpected format",
        ),
        ({"azureFile": {"secretName": "s"}}, persistent({}, claimed=False), "could not find a secret namespace"),
        ({"cinder": {"volumeID": 5}}, None, "cinder.volumeID is a string"),
    ],
)
def test_volumes_without_an_equivalent_are_refused(source: Object, volume: Object | None, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        translated(source, volume)


def test_other_volumes_are_not_translated() -> None:
    assert translated({"hostPath": {"path": "/data"}}) is None


@pytest.mark.parametrize(
    ("modes", "compatible"),
    [
        ((), ()),
        (("ReadOnlyMany",), ("ReadOnlyMany",)),
        (("ReadWriteOnce",), ("ReadWriteOnce",)),
        (("ReadWriteMany",), ("ReadWriteOnce",)),
        (("ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOnce",)),
        (("ReadWriteOnce", "ReadWriteMany"), ("ReadWriteOnce",)),
        (("ReadWriteMany", "ReadOnlyMany"), ("ReadWriteOnce",)),
        (("ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOnce",)),
        (("ReadWriteOncePod",), ("ReadWriteOnce",)),
        (("ReadWriteOncePod", "ReadOnlyMany"), ("ReadOnlyMany",)),
    ],
)
def test_access_modes_of_a_translated_gce_disk(modes: tuple[str, ...], compatible: tuple[str, ...]) -> None:
    assert compatible_modes(modes) == compatible


def tables(*volumes: Object, claims: tuple[Object, ...] = (), drivers: tuple[Object, ...] = ()) -> Tables:
    objects = {
        PERSISTENT_VOLUMES: volumes,
        PERSISTENT_VOLUME_CLAIMS: claims,
        CSI_DRIVERS: drivers,
        **dict.fromkeys((NODES, PODS, VOLUME_ATTACHMENTS, CSI_NODES), ()),
    }
    return Bench(objects, indexes=SPEC.indexes, facts=SPEC.facts).tables


@pytest.mark.parametrize(
    ("volume", "unique_name", "shared"),
    [
        (disk(), DISK, False),
        (disk(modes=["ReadWriteOncePod"]), DISK, False),
        (disk(modes=["ReadWriteOnce", "ReadOnlyMany"]), DISK, True),
        (disk(modes=["ReadWriteMany"]), DISK, True),
        (disk(modes=[]), DISK, True),
        (disk(fc={"targetWWNs": ["a", "b"], "lun": 0}), "kubernetes.io/fc/[a b]:0", False),
        (disk(fc={"wwids": ["w"]}), "kubernetes.io/fc/[w]", False),
        (
            disk(iscsi={"targetPortal": "10.0.0.1:3260", "iqn": "iqn.x", "lun": 3}),
            "kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:3",
            False,
        ),
        (disk(cinder={"volumeID": "v"}), "kubernetes.io/csi/cinder.csi.openstack.org^v", False),
        (
            disk(modes=["ReadWriteMany"], gcePersistentDisk={"pdName": "d"}),
            "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            False,
        ),
    ],
)
def test_volume_has_the_unique_name_of_upstream_and_may_be_shared_by_nodes(
    volume: Object, unique_name: str, shared: bool
) -> None:
    found = of_persistent_volume(volume)
    assert (found.unique_name, found.shared, found.name) == (unique_name, shared, "disk")
    assert is_attachable(tables(), found)


@pytest.mark.parametrize("source", [{"fc": {}}, {"fc": {"targetWWNs": ["a"]}}, {"csi": {"driver": 1}}])
def test_invalid_sources_are_refused(source: Object) -> None:
    with pytest.raises(ValueError, match=r"Fibre Channel|csi\.driver"):
        of_persistent_volume(disk(**source))


@pytest.mark.parametrize(
    ("spec", "attachable"), [({}, True), ({"attachRequired": True}, True), ({"attachRequired": False}, False)]
)
def test_driver_decides_whether_its_volumes_are_attached(spec: Object, attachable: bool) -> None:
    drivers = ({"metadata": {"name": DRIVER}, "spec": spec},)
    assert is_attachable(tables(drivers=drivers), of_persistent_volume(disk())) is attachable


OWNED = {"ownerReferences": [{"kind": "Pod", "name": "pod", "uid": "uid-of-pod", "controller": True}]}
EPHEMERAL = {"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}


@pytest.mark.parametrize(
    ("user", "volumes", "claims", "found"),
    [
        (pod(), [disk()], [claim()], "disk"),
        (pod(of="other"), [disk()], [claim()], "claim default/other does not exist"),
        (pod(), [disk()], [claim(phase="Pending")], "claim default/disk is not bound"),
        (pod(), [], [claim()], "volume disk does not exist"),
        (pod(), [disk(claim="other")], [claim()], "volume disk does not refer to claim default/disk"),
        (
            pod(volume=EPHEMERAL, uid="uid-of-pod"),
            [disk(claim="pod-data")],
            [claim("pod-data", to="disk", **OWNED)],
            "disk",
        ),
        (
            pod(volume=EPHEMERAL, uid="another"),
            [disk(claim="pod-data")],
            [claim("pod-data", to="disk", **OWNED)],
            "claim default/pod-data was not created for pod default/pod",
        ),
        (
            pod(volume=EPHEMERAL, uid="uid-of-pod"),
            [disk(claim="pod-data")],
            [claim("pod-data", to="disk")],
            "claim default/pod-data was not created for pod default/pod",
        ),
        (pod(volume={"name": "data", "gcePersistentDisk": {"pdName": "d"}}), [], [], f"{GCE}-d"),
    ],
)
def test_volumes_of_pods_are_resolved(user: Object, volumes: list[Object], claims: list[Object], found: str) -> None:
    known, volume = tables(*volumes, claims=tuple(claims)), user["spec"]["volumes"][0]
    if " " in found:
        with pytest.raises(UnresolvedError, match=found):
            of_pod_volume(known, user, volume)
    else:
        assert of_pod_volume(known, user, volume).name == found


def test_inline_volumes_are_attached_by_their_translation() -> None:
    source = {"name": "data", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    spec = of_pod_volume(tables(), pod(volume=source), source)
    assert not spec.shared
    assert new_attachment("name", "n1", spec)["spec"] == {
        "attacher": EBS,
        "nodeName": "n1",
        "source": {
            "inlineVolumeSpec": {
                "csi": {"driver": EBS, "volumeHandle": "vol-1", "volumeAttributes": {"partition": "0"}},
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Filesystem",
            }
        },
    }


def test_attachments_have_the_name_that_upstream_computes() -> None:
    source = source_of(f"kubernetes.io/csi/{DRIVER}^disk")
    assert source == CsiSource(DRIVER, "disk")
    # printf 'diskdisk.example.comn1' | sha256sum
    digest = "5ada109b51d237d72aaf3eef00476ba46fb27724326b5a411311a674488e5f82"
    assert attachment_name(CsiSource(DRIVER, "disk"), "n1") == f"csi-{digest}"
    assert [source_of(name) for name in ("kubernetes.io/fc/[w]", "kubernetes.io/csi/a^b^c", "disk")] == [None] * 3


@pytest.mark.parametrize(
    ("volume", "indexed"),
    [
        ({"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}, True),
        (EPHEMERAL, True),
        ({"name": "data", "csi": {"driver": DRIVER}}, True),
        ({"name": "data", "cinder": {"volumeID": "v"}}, True),
        ({"name": "data", "emptyDir": {}}, False),
        ({"name": "data", "hostPath": {"path": "/"}}, False),
    ],
)
def test_pods_with_volumes_that_may_be_attached_are_indexed(volume: Object, indexed: bool) -> None:
    assert bool(list(has_volumes(pod(volume=volume)))) is indexed
