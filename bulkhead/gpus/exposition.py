"""Reads and writes the text of exporters, within bounds. Pure.

A page comes from an exporter that any program on its node might answer for. So its bytes, lines, labels and values have
limits, and a line that does not fit is left out and counted.
"""

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
MAX_SAMPLES: Final = 20_000  # of one page: 16 GPUs of 7 instances have fewer than 5,000
# Of all pages of one tenant, as its syncer gets them: some 2,000 GPUs.
MAX_TENANT_BYTES: Final = 16 * 1024 * 1024
MAX_TENANT_SAMPLES: Final = 50_000
MAX_LINE_BYTES: Final = 4096
MAX_LABELS: Final = 48
MAX_VALUE_CHARACTERS: Final = 253

_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} +([^ ]+)(?: +-?[0-9]+)?$")
_ESCAPE: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. Labels without a text are left out, as Prometheus does."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Page:
    """What an exporter answered: samples of wanted metrics, and how many lines of theirs were left out."""

    samples: tuple[Sample, ...] = ()
    left_out: int = 0


def parse(
    text: bytes,
    wanted: Container[str],
    *,
    max_bytes: int = MAX_PAGE_BYTES,
    max_samples: int = MAX_SAMPLES,
    read: Mapping[str, int] | None = None,
) -> Page:
    """The samples of wanted metrics with labels; lines that do not fit, and those beyond the bounds, are left out.

    `read` are the labels to read with the most characters of each; others are passed over, however long. None reads all.
    """
    samples: list[Sample] = []
    left_out = 0
    # The lines of a device have the same labels: they are read once, and shared.
    known: dict[str, Mapping[str, str] | None] = {}
    for raw in text[:max_bytes].split(b"\n"):
        name, brace, _ = raw.partition(b"{")
        if not brace or name.decode("ascii", "replace") not in wanted:
            continue
        sample = _sample(raw, known, read) if len(samples) < max_samples else None
        if sample is None:
            left_out += 1
        else:
            samples.append(sample)
    return Page(tuple(samples), left_out)


def _sample(raw: bytes, known: dict[str, Mapping[str, str] | None], read: Mapping[str, int] | None) -> Sample | None:
    if len(raw) > MAX_LINE_BYTES:
        return None
    try:
        line = _LINE.match(raw.decode("utf-8").rstrip("\r"))
        value = float(line[3]) if line is not None else math.nan
    except ValueError:
        return None
    if line is None or not math.isfinite(value):
        return None
    if line[2] not in known:
        known[line[2]] = _labels(line[2], read)
    labels = known[line[2]]
    if labels is None:
        return None
    return Sample(line[1], labels, value)


def _labels(text: str, read: Mapping[str, int] | None) -> dict[str, str] | None:
    """The labels of a line; None for a text that is not a list of labels, each once."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None or label[1] in seen or len(seen) >= MAX_LABELS:
            return None
        name, at = label[1], label.end()
        seen.add(name)
        longest = MAX_VALUE_CHARACTERS if read is None else read.get(name)
        if longest is None:
            continue
        value = _ESCAPE.sub(lambda part: "\n" if part[1] == "n" else part[1], label[2]) if "\\" in label[2] else label[2]
        if len(value) > longest:
            return None
        if value:
            found[name] = value
    return found


def render(samples: Iterable[Sample], about: Mapping[str, tuple[str, str]]) -> bytes:
    """A page: the samples of each metric together. `about` is the type and the help of each metric."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    return "".join(_lines(by_name, about)).encode()


def _lines(by_name: Mapping[str, list[Sample]], about: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name, samples in sorted(by_name.items()):
        kind, text = about.get(name, ("untyped", ""))
        yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        for sample in samples:
            yield line(sample)


def line(sample: Sample) -> str:
    """One line of a page."""
    labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in sample.labels.items())
    return f"{sample.name}{{{labels}}} {_number(sample.value)}\n"


def _number(value: float) -> str:
    exact = float(value)
    return str(int(exact)) if exact.is_integer() and abs(exact) < 1 << 53 else repr(exact)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
