"""Memory quantities as people write them."""

import pytest

from controller.quantity import memory_mib


@pytest.mark.parametrize(
    ("written", "mib"),
    [("1Gi", 1024), ("1.5Gi", 1536), ("512Mi", 512), ("1G", 953), ("1048576", 1), ("100k", 0), ("2Ti", 2 * 1024 * 1024)],
)
def test_what_memory_quantities_mean(written: str, mib: int) -> None:
    assert memory_mib(written) == mib


@pytest.mark.parametrize("written", ["", "-1Gi", "1e3", "100m", "1Gi\n", "9" * 16, "1 Gi", "Gi", "1.Gi", "NaN"])
def test_what_is_no_memory_quantity(written: str) -> None:
    assert memory_mib(written) is None
