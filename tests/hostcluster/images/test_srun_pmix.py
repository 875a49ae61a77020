"""`srun --mpi=pmix` in the Slurm image: which words go to salloc, to PRRTE, to Slurm's own srun, and which are refused."""

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workstation.hostcluster.images.build import PROJECT

PATH = PROJECT / "images/slurm/rootfs/usr/local/libexec/srun-pmix"
PRTERUN = "prterun --np {} --map-by ppr:{}:node:OVERSUBSCRIBE --bind-to none"


class ExecutedError(Exception):
    """Stands for the program that takes the process over."""


def load() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("srun_pmix", str(PATH))
    spec = importlib.util.spec_from_loader("srun_pmix", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # the folder goes into the image as it is
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


SRUN_PMIX = load()


def call(monkeypatch: pytest.MonkeyPatch, words: list[str], **environment: str) -> list[str]:
    """What the process becomes."""

    def execute(_: str, argv: list[str]) -> None:
        raise ExecutedError(argv)

    for name in [name for name in os.environ if name.startswith(("SLURM", "PRTE"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(os, "execvp", execute)
    monkeypatch.setattr(sys, "argv", ["srun-pmix", *words])
    with pytest.raises(ExecutedError) as caught:
        SRUN_PMIX.main()
    argv: list[str] = caught.value.args[0]
    return argv


INSIDE = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "6"}


@pytest.mark.parametrize(
    ("words", "became"),
    [
        ("--mpi=pmix app", PRTERUN.format(6, 3) + " app"),
        ("--mpi=pmix -n4 app --mpi=x -n 9", PRTERUN.format(4, 2) + " app --mpi=x -n 9"),
        ("-N 2 -n 3 --mpi pmix app", PRTERUN.format(3, 2) + " app"),
        ("-N1 --ntasks-per-node=4 --mpi=pmix_v5 app", PRTERUN.format(4, 4) + " app"),
        ("-l -D /tmp --mpi=pmix -- app", PRTERUN.format(6, 3) + " --output tag --wdir /tmp app"),
        ("-w cpu-1 -N1 -n1 --mpi=pmix app", PRTERUN.format(1, 1) + " --host cpu-1 app"),
    ],
)
def test_inside_an_allocation_prrte_starts_the_processes(monkeypatch: pytest.MonkeyPatch, words: str, became: str) -> None:
    assert call(monkeypatch, words.split(), **INSIDE) == became.split()


@pytest.mark.parametrize(
    ("words", "became"),
    [
        (
            "-N2 -n4 --overcommit --gres=gpu:1 --mpi=pmix app -x",
            "salloc --quiet --nodes=2 --ntasks=4 --overcommit --gres=gpu:1 srun-pmix --mpi=pmix -- app -x",
        ),
        ("-p gpu --mpi pmix -l app", "salloc --quiet --partition=gpu srun-pmix --label --mpi=pmix -- app"),
    ],
)
def test_outside_an_allocation_salloc_comes_first(monkeypatch: pytest.MonkeyPatch, words: str, became: str) -> None:
    assert call(monkeypatch, words.split()) == became.split()


@pytest.mark.parametrize("words", ["-N2 app --mpi=pmix", "--mpi=pmi2 app", "hostname", "--mpi=none -l app pmix"])
def test_other_calls_are_slurms_own(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    assert call(monkeypatch, words.split(), **INSIDE) == ["/usr/bin/srun", *words.split()]


def test_the_variable_asks_for_pmix_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, ["app"], SLURM_MPI_TYPE="pmix", **INSIDE)[0] == "prterun"
    assert "SLURM_MPI_TYPE" not in os.environ


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--mpi=pmix --pty sh", "--pty is not possible"),
        ("--mpi=pmix -o out.txt app", "--output is not possible"),
        ("--mpi=pmix -n many app", "--ntasks=many is not a number"),
        ("--mpi=pmix", "no command was given"),
    ],
)
def test_what_cannot_be_done_is_named(monkeypatch: pytest.MonkeyPatch, words: str, says: str) -> None:
    for name, value in INSIDE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["srun-pmix", *words.split()])
    with pytest.raises(SystemExit, match=says):
        SRUN_PMIX.main()


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_the_words_of_the_command_are_never_changed(command: list[str]) -> None:
    options, rest = SRUN_PMIX.split(["-n2", "--mpi=pmix", "--", *command])
    assert options == [("ntasks", "2"), ("mpi", "pmix")]
    assert rest == command
