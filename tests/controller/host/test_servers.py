"""Which servers the host's objects name, whatever the driver calls them; and which texts are not a server's address."""

from typing import Any

import msgspec
import pytest

from controller.host import servers
from controller.host.matters import keeping


def volume(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "v", "uid": "u", "resourceVersion": "1"}, "spec": spec}


def csi(**attributes: Any) -> dict[str, Any]:
    return volume(csi={"driver": "d", "volumeHandle": "h", "volumeAttributes": attributes})


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (volume(nfs={"server": "192.0.2.10", "path": "/export"}), ["192.0.2.10"]),
        (volume(nfs={"server": "NFS.example.org.", "path": "/export"}), ["nfs.example.org"]),
        (volume(nfs={"server": "fd00::5", "path": "/export"}), ["fd00::5"]),
        (volume(nfs={"server": "[fd00::5]", "path": "/export"}), ["fd00::5"]),
        (volume(nfs={"server": "fe80::1%eth0", "path": "/export"}), ["fe80::1"]),
        (volume(cephfs={"monitors": ["192.0.2.1:6789", "[fd00::1]:3300", "mon.example.org:6789"]}),
         ["192.0.2.1", "fd00::1", "mon.example.org"]),
        (volume(rbd={"monitors": ["192.0.2.1:6789"]}), ["192.0.2.1"]),
        (volume(iscsi={"targetPortal": "192.0.2.1:3260", "portals": ["192.0.2.2", "192.0.2.3:3260"]}),
         ["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        (volume(flexVolume={"driver": "d", "options": {"server": "192.0.2.10", "share": "x"}}), ["192.0.2.10"]),
        (csi(server="192.0.2.10", share="/export"), ["192.0.2.10"]),
        (csi(server="nas.example.org:/share"), ["nas.example.org"]),
        (csi(source="//smb.example.org/share"), ["smb.example.org"]),
        (csi(source="//192.0.2.9/share"), ["192.0.2.9"]),
        (csi(share="192.0.2.9:/share"), ["192.0.2.9"]),
        (csi(ip="192.0.2.9", volume="vol1"), ["192.0.2.9"]),
        (csi(targetPortal="192.0.2.9:3260", portals='["192.0.2.8:3260", "192.0.2.7"]'),
         ["192.0.2.7", "192.0.2.8", "192.0.2.9"]),
        (csi(monitors="192.0.2.1:6789,192.0.2.2:6789"), ["192.0.2.1", "192.0.2.2"]),
        (csi(exaFS="192.0.2.4@tcp:/fs,192.0.2.5@tcp:/fs"), ["192.0.2.4", "192.0.2.5"]),
        (volume(csi={"driver": "d", "volumeHandle": "192.0.2.4@tcp:192.0.2.5@tcp:/fs"}), ["192.0.2.4", "192.0.2.5"]),
        (volume(csi={"driver": "d", "volumeHandle": "ocid1.filesystem:192.0.2.6:/x"}), ["192.0.2.6"]),
        # None is a server of the network, or none that nodes mount from.
        (csi(share="/export", subdir="a", clusterID="rook-ceph", csiDriverVersion="4.11.0"), []),
        (csi(endpoint="https://192.0.2.9:9000"), []),
        (volume(local={"path": "/srv"}), []),
        (volume(hostPath={"path": "/srv"}), []),
    ],
)  # fmt: skip
def test_the_servers_of_a_volume(found: dict[str, Any], wanted: list[str]) -> None:
    assert list(servers.of_volume(found)) == wanted


def test_the_servers_of_classes_and_of_shared_volumes() -> None:
    parameters = {"server": "192.0.2.10", "share": "/export", "mountPermissions": "0"}
    assert servers.of_storage_class({"parameters": parameters, "provisioner": "nfs.csi.k8s.io"}) == ("192.0.2.10",)
    assert servers.of_storage_class({"provisioner": "d"}) == ()
    assert servers.of_shared_volume({"spec": {"nfs": {"server": "192.0.2.11", "path": "/"}}}) == ("192.0.2.11",)
    assert servers.of_shared_volume({"spec": {"persistentVolumeName": "v"}}) == ()
    webhook = {"url": "https://audit.example.org", "address": "192.0.2.12"}
    assert servers.of_tenant_class({"spec": {"audit": {"webhook": webhook}}}) == ("192.0.2.12",)
    # Those are pods of the host, which are closed as pods.
    assert servers.of_tenant_class({"spec": {"audit": {"webhook": webhook | {"namespace": "audit"}}}}) == ()
    assert servers.of_tenant_class({"spec": {}}) == ()


@pytest.mark.parametrize(
    "strange",
    [
        {}, {"spec": None}, {"spec": []}, volume(nfs=None), volume(nfs={"server": 7}), volume(cephfs={"monitors": "x" * 9000}),
        volume(cephfs={"monitors": {"a": 1}}), csi(portals='["' + "[" * 3000), csi(server={}), csi(server=" , ;"),
        csi(server="a b\n"), volume(csi={"volumeHandle": 9}), volume(csi={"volumeAttributes": ["server"]}),
    ],
)  # fmt: skip
def test_what_has_another_shape_names_few_servers_and_no_error(strange: dict[str, Any]) -> None:
    assert all(len(each) <= 253 for each in servers.of_volume(strange))
    assert servers.of_storage_class(strange) == servers.of_tenant_class(strange) == ()
    servers.of_shared_volume(strange)


def test_one_object_names_no_more_servers_than_are_kept() -> None:
    many = [f"192.0.{each // 250}.{each % 250}" for each in range(900)]
    assert len(servers.of_volume(volume(cephfs={"monitors": many}))) == 64


def test_of_objects_without_a_server_nothing_is_kept() -> None:
    kept = keeping(servers.of_volume)
    meta, body = kept(msgspec.json.encode(volume(nfs={"server": "192.0.2.10", "path": "/"})), None)
    assert (meta.name, servers.kept_in([body])) == ("v", frozenset({"192.0.2.10"}))
    assert kept(msgspec.json.encode(volume(local={"path": "/"})), None)[1] == b""
