"""GPU samples in the names of a plane: the tenant's own pods alone, by UID, node and container."""

from bulkhead.gpus.exposition import Sample
from bulkhead.gpus.fields import UTILISATION
from syncer.translate.gpusamples import Mirrored, translated

POD = Mirrored("host-uid", "ml", "train", "node-1", frozenset({"main", "sidecar"}))
LABELS = {
    "gpu": "3",
    "UUID": "GPU-aa",
    "modelName": "NVIDIA H100",
    "Hostname": "node-1",
    "namespace": "bh-red-work",
    "pod": "train-0123",
    "container": "main",
    "uid": "host-uid",
    "host_secret": "of the host",
}


def shown(**changed: str) -> list[Sample]:
    sample = Sample(UTILISATION, LABELS | changed, 50.0)
    return list(translated([sample], namespace="bh-red-work", find={"train-0123": POD}.get))


def test_a_sample_has_the_planes_names_and_the_devices_labels_alone() -> None:
    (sample,) = shown()
    assert sample.labels == {
        "gpu": "3",
        "UUID": "GPU-aa",
        "modelName": "NVIDIA H100",
        "Hostname": "node-1",
        "namespace": "ml",
        "pod": "train",
        "container": "main",
    }
    assert (sample.name, sample.value) == (UTILISATION, 50.0)


def test_what_is_not_the_pods_is_left_out() -> None:
    assert not shown(namespace="bh-blue-work")
    assert not shown(pod="another")
    assert not shown(uid="an earlier pod of that name")
    assert not shown(uid="")
    assert not shown(Hostname="node-2")
    assert not shown(container="of another pod")
    assert len(shown(container="sidecar")) == 1
    assert len(shown(container="")) == 1
