"""What the fake GPUs are, without a kubelet."""

from pathlib import Path

import pytest

from workstation.hostcluster.gpu.devices import Gpu, grant, prefer

GPUS = tuple(Gpu(index, Path(f"/nodes/nvidia{index}")) for index in range(8))


def test_a_grant_names_indices_in_order() -> None:
    given = grant(GPUS, ["bulkhead-gpu-6", "bulkhead-gpu-2"])
    assert given.environment == {"NVIDIA_VISIBLE_DEVICES": "2,6"}
    assert [gpu.container_path for gpu in given.gpus] == ["/dev/nvidia2", "/dev/nvidia6"]


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(KeyError, match="bulkhead-gpu-9"):
        grant(GPUS, ["bulkhead-gpu-9"])


@pytest.mark.parametrize(
    ("available", "required", "size", "chosen"),
    [
        ([7, 1, 3], [], 2, [1, 3]),
        ([7, 1, 3], [7], 2, [7, 1]),
        ([5], [], 1, [5]),
        ([0, 1, 2, 3], [3, 2], 2, [3, 2]),
    ],
)
def test_neighbours_are_preferred(available: list[int], required: list[int], size: int, chosen: list[int]) -> None:
    def names(indices: list[int]) -> list[str]:
        return [f"bulkhead-gpu-{index}" for index in indices]

    assert prefer(GPUS, names(available), names(required), size) == names(chosen)


def test_a_plain_file_is_not_a_healthy_device(tmp_path: Path) -> None:
    gpu = Gpu(0, tmp_path / "nvidia0")
    assert not gpu.healthy()
    gpu.node.write_bytes(b"")
    assert not gpu.healthy()
