"""Quantities against a real API server: what it gives back stands for the same number, and what we write it keeps."""

import asyncio
from collections.abc import Iterable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bulkhead.api import quantity
from bulkhead.kube import codec
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import LIMIT_RANGES

SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DIGITS = (
    "0",
    "1",
    "5",
    "7",
    "10",
    "999",
    "1000",
    "1000000",
    "1024",
    "1536",
    "1048576",
    "2000",
    "0.5",
    ".25",
    "1.",
    "1.5",
    "12.345",
    "0.0001",
    "+3",
    "1000.000",
    "0.1",
)
EXPONENTS = tuple(f"{sign}{power}" for sign in ("e", "E", "e+", "e-") for power in (0, 1, 2, 3, 4, 6, 9, 12))


async def kept(config: KubeConfig, spellings: Iterable[str]) -> dict[str, str]:
    """The server's form of each quantity, in one request: a LimitRange may hold any number of unknown types."""
    limits = [{"type": f"example.org/t{at}", "max": {"cpu": each}} for at, each in enumerate(spellings)]
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "spelled"}, "spec": {"limits": limits}}
    async with Client(config, user_agent="tests", field_manager="tests") as client:
        path, params = LIMIT_RANGES.path("default"), {"dryRun": "All"}
        data = await client.transport.request(
            "POST", path, params=params, body=codec.encode(body), content_type="application/json"
        )
    found = {each["type"]: each["max"]["cpu"] for each in codec.decode(data)["spec"]["limits"]}
    return {each["max"]["cpu"]: found[each["type"]] for each in limits}


def judge(config: KubeConfig, spellings: list[str]) -> None:
    """The server keeps some spellings and rewrites others, always as we do; and what we write it keeps."""
    found = asyncio.run(kept(config, spellings))
    written = {each: quantity.canonical(each) for each in spellings}
    wrong = {each: (there, written[each]) for each, there in found.items() if there not in {each, written[each]}}
    assert not wrong, f"the server's form and ours: {wrong}"
    for spelling, there in found.items():
        assert quantity.parse(spelling) == quantity.parse(there)
    ours = sorted(set(written.values()))
    assert asyncio.run(kept(config, ours)) == {each: each for each in ours}


def test_every_suffix_and_exponent_reads_as_the_server_reads_it(host_config: KubeConfig) -> None:
    spellings = [f"{digits}{suffix}" for digits in DIGITS for suffix in (*SUFFIXES, *EXPONENTS)]
    usable = [each for each in spellings if _readable(each)]
    assert len(usable) > len(spellings) * 2 // 3
    judge(host_config, usable)


def _readable(spelling: str) -> bool:
    """Not what an API server cuts: what is beyond the largest number that it knows, and what a thousandth is too coarse for."""
    try:
        return quantity.parse(spelling) * 1000 % 1 == 0
    except quantity.InvalidQuantityError:
        return False


NUMBERS = st.builds(
    lambda whole, part, suffix: f"{whole}{part}{suffix}",
    st.integers(0, 10**9), st.just("") | st.integers(0, 10**10).map(".{}".format),
    st.sampled_from((*SUFFIXES[:9], *SUFFIXES[10:-2], *EXPONENTS[:8])),
)  # fmt: skip


# Each example holds many, so a smaller one says no more.
@settings(max_examples=10, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spellings=st.lists(NUMBERS, min_size=100, max_size=200, unique=True))
def test_any_quantity_reads_as_the_server_reads_it(host_config: KubeConfig, spellings: list[str]) -> None:
    judge(host_config, [each for each in spellings if _readable(each)])
