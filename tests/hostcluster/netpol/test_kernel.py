"""The kernel takes the rules that the golden cases say, in a network namespace of the test's own."""

import subprocess

import pytest

from tests.hostcluster.netpol.test_golden import CASES
from tests.kit import machine


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.nft")))
def test_the_kernel_takes_the_rules_twice(name: str) -> None:
    machine.namespaces("a table in the kernel", "unshare", "-n", instead="the embedded host puts these tables into its own")
    machine.programs("a table in the kernel", "nft")
    path = CASES / f"{name}.nft"
    # Twice: the second transaction replaces the table of the first.
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", 'nft -f "$0" && nft -f "$0"', str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
