"""Generates the message classes of the kubelet's APIs, *.proto: `python -m workstation.hostcluster.gpu.regenerate [--check]`.

With --check it changes nothing, and fails if the checked-in files differ from what it would write.
"""

import sys
import tempfile
from importlib import resources
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
FOLDER = "workstation/hostcluster/gpu"
APIS = ("deviceplugin", "podresources")
WRITTEN = tuple(f"{api}_pb2.{ending}" for api in APIS for ending in ("py", "pyi"))


def write(target: Path) -> None:
    """Generate into `target`, which is laid out like the project."""
    from grpc_tools import protoc  # noqa: PLC0415  only developers have it installed

    well_known = resources.files("grpc_tools") / "_proto"
    options = [f"-I{PROJECT}", f"-I{well_known}", f"--python_out={target}", f"--pyi_out={target}"]
    if protoc.main(["protoc", *options, *(f"{FOLDER}/{api}.proto" for api in APIS)]) != 0:
        sys.exit("protoc failed; its messages are in the output")


def main() -> None:
    """Write or check."""
    if sys.argv[1:] != ["--check"]:
        write(PROJECT)
        return
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary))
        for name in WRITTEN:
            if (Path(temporary) / FOLDER / name).read_bytes() != (PROJECT / FOLDER / name).read_bytes():
                sys.exit(f"{FOLDER}/{name}: out of date, run: python -m workstation.hostcluster.gpu.regenerate")


if __name__ == "__main__":
    main()
