"""Streams in the age format: they come back as they were, anything cut or changed does not, and memory stays bounded."""

import asyncio
import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pyrage
import pytest

from bulkhead.snapshots.judge import _plausible
from bulkhead.snapshots.sealing import Opening, SealError, Sealing, identities

ROOT = Path(__file__).resolve().parents[2]
KEY = pyrage.x25519.Identity.generate()
PUBLIC = str(KEY.to_public())


async def given(data: bytes, size: int = 70_000) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def collected(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def sealed(data: bytes, *recipients: str) -> bytes:
    sealing = Sealing(given(data), recipients or (PUBLIC,))
    out = await collected(sealing.stream())
    assert (sealing.plain, sealing.size, sealing.sha256) == (len(data), len(out), hashlib.sha256(out).hexdigest())
    assert _plausible(len(out), len(data))
    return out


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_000])
async def test_what_is_sealed_is_opened(size: int) -> None:
    data = os.urandom(size)
    assert await collected(Opening(given(await sealed(data), 1000), [KEY]).stream()) == data


async def test_each_of_several_keys_opens_it_and_no_other() -> None:
    second = pyrage.x25519.Identity.generate()
    out = await sealed(b"data" * 1000, PUBLIC, str(second.to_public()))
    for key in (KEY, second):
        assert await collected(Opening(given(out), [key]).stream()) == b"data" * 1000
    with pytest.raises(SealError, match="No matching keys"):
        await collected(Opening(given(out), [pyrage.x25519.Identity.generate()]).stream())


async def test_cut_and_changed_streams_are_refused_wherever_that_is() -> None:
    out = await sealed(os.urandom(300_000))
    for cut in (0, 10, 150, len(out) // 2, 65_536 + 200, len(out) - 1):
        with pytest.raises(SealError):
            await collected(Opening(given(out[:cut]), [KEY]).stream())
    for at in (30, len(out) // 2, len(out) - 1):
        with pytest.raises(SealError):
            await collected(Opening(given(out[:at] + bytes([out[at] ^ 1]) + out[at + 1 :]), [KEY]).stream())
    with pytest.raises(SealError):
        await collected(Opening(given(out + b"x"), [KEY]).stream())


BAD_FILES = {
    "empty": "",
    "comment": "# only a comment\n",
    "short": "AGE-SECRET-KEY-1QQ",
    "words": "hello",
    "one of two": f"{KEY}\nAGE-SECRET-KEY-1XYZ\n",
}


# With names: keys are drawn in each process.
@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_without_private_keys_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(SealError) as refused:
        identities(text)
    assert "XYZ" not in str(refused.value)
    assert str(KEY) not in str(refused.value)


def test_a_file_of_age_keygen_is_read() -> None:
    assert len(identities(f"# created: 2026\n# public key: {PUBLIC}\n{KEY}\n")) == 1


@pytest.mark.parametrize("recipients", [(), ("age1zzz",), (PUBLIC, "")])
async def test_what_no_key_could_open_is_not_sealed(recipients: tuple[str, ...]) -> None:
    with pytest.raises(SealError):
        Sealing(given(b"x"), recipients)


class SourceDied(Exception):  # noqa: N818 - what happened
    """The source's own error."""


async def test_the_error_of_the_source_is_told_as_it_is() -> None:
    async def dying() -> AsyncGenerator[bytes, None]:
        yield os.urandom(1_000_000)
        raise SourceDied

    with pytest.raises(SourceDied):
        await collected(Sealing(dying(), [PUBLIC]).stream())


@pytest.mark.parametrize("stalled", [False, True])
async def test_a_reader_that_goes_away_ends_everything(stalled: bool) -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            for _ in range(4 if stalled else 1_000_000):
                yield os.urandom(500_000)
            await asyncio.Event().wait()
        finally:
            ended.set()

    source = endless()
    stream = Sealing(source, [PUBLIC]).stream()
    await anext(stream)
    async with asyncio.timeout(30):
        await stream.aclose()
        await source.aclose()
        await ended.wait()


def test_memory_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    program = tmp_path / "sealing.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio, resource, sys
        from bulkhead.snapshots.sealing import Sealing
        async def main():
            async def source():
                for _ in range(int(sys.argv[1])):
                    yield bytes(1 << 20)
            async for _ in Sealing(source(), [{PUBLIC!r}]).stream():
                pass
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        asyncio.run(main())
        """)
    )

    def used(mebibytes: int) -> int:
        command = [sys.executable, str(program), str(mebibytes)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return int(subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout)

    small, large = used(4), used(200)
    assert large - small < 16 * 1024, (small, large)  # KiB
