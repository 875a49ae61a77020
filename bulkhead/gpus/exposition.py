"""Reads and writes the text of exporters, within bounds. Pure.

A page comes from an exporter that any program on its node might answer for. So its bytes, lines, labels and values have
limits, and a line that does not fit is left out and counted. Exporters also write labels that tenants gave their pods: where
only some labels are read, the others may make a line long without hiding it, and a page is read piece by piece.
"""

import hashlib
import math
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# An exporter's page: 50 metrics of 32 devices, each with as many labels as a tenant's pod may have, are some 120 MiB.
MAX_PAGE_BYTES: Final = 128 * 1024 * 1024
MAX_SAMPLES: Final = 20_000  # of one page: 16 GPUs of 7 instances have fewer than 5,000
# Of all pages of one tenant, as its syncer gets them: some 2,000 GPUs.
MAX_TENANT_BYTES: Final = 16 * 1024 * 1024
MAX_TENANT_SAMPLES: Final = 50_000
MAX_LINE_BYTES: Final = 4096
MAX_LABELS: Final = 48
# Where only some labels are read: a pod has at most 200 labels of 380 bytes.
MAX_PASSED_LINE_BYTES: Final = 128 * 1024
MAX_PASSED_LABELS: Final = 256
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
    """What an exporter answered: samples of wanted metrics, and how many lines of theirs were left out.

    `unreadable` has, of lines whose labels do not fit, the labels before the fault, each set once.
    """

    samples: tuple[Sample, ...] = ()
    left_out: int = 0
    unreadable: tuple[Mapping[str, str], ...] = ()


class Lines:
    """Cuts a page that comes piece by piece into lines, and hands each to `take`; of one that is too long its beginning."""

    def __init__(self, max_bytes: int, take: Callable[[bytes, bool], None]) -> None:
        """`take` gets a line, and whether it has been cut."""
        self._max_bytes = max_bytes
        self._take = take
        self._rest = b""
        self._is_cut = False

    def feed(self, part: bytes) -> None:
        """Take the next piece."""
        lines = part.split(b"\n")
        for number, piece in enumerate(lines):
            if not self._is_cut:
                self._rest += piece
                self._is_cut = len(self._rest) > self._max_bytes
            if number < len(lines) - 1:
                self.end()

    def end(self) -> None:
        """The line that is being read has ended."""
        line, is_cut, self._rest, self._is_cut = self._rest, self._is_cut, b"", False
        self._take(line, is_cut)


class Reader:
    """Reads a page piece by piece, and keeps nothing of it but the samples of wanted metrics."""

    def __init__(
        self, wanted: Container[str], *, max_samples: int = MAX_SAMPLES, read: Mapping[str, int] | None = None
    ) -> None:
        """`read` are the labels to read with the most characters of each; others are passed over. None reads all."""
        self._wanted = wanted
        self._max_samples = max_samples
        self._read = read
        self._samples: list[Sample] = []
        self._left_out = 0
        # The lines of a device have the same labels: they are read once, and shared.
        self._known: dict[str | bytes, _Labels] = {}
        self._lines = Lines(MAX_LINE_BYTES if read is None else MAX_PASSED_LINE_BYTES, self._line)

    def feed(self, part: bytes) -> None:
        """Take the next piece."""
        self._lines.feed(part)

    def page(self) -> Page:
        """What the page had, after its last piece."""
        self._lines.end()
        unreadable = (labels.read for labels in self._known.values() if not labels.whole and labels.read)
        once = {tuple(sorted(labels.items())): labels for labels in unreadable}
        return Page(tuple(self._samples), self._left_out, tuple(once.values()))

    def _line(self, raw: bytes, is_cut: bool) -> None:
        name, brace, _ = raw.partition(b"{")
        if not brace or name.decode("ascii", "replace") not in self._wanted:
            return
        if is_cut:
            self._labels(raw[:MAX_LINE_BYTES].decode("utf-8", "replace").partition("{")[2])
        sample = self._sample(raw) if len(self._samples) < self._max_samples and not is_cut else None
        if sample is None:
            self._left_out += 1
        else:
            self._samples.append(sample)

    def _sample(self, raw: bytes) -> Sample | None:
        try:
            line = _LINE.match(raw.decode("utf-8").rstrip("\r"))
            value = float(line[3]) if line is not None else math.nan
        except ValueError:
            return None
        if line is None or not math.isfinite(value):
            return None
        labels = self._labels(line[2])
        return Sample(sys.intern(line[1]), labels.read, value) if labels.whole else None

    def _labels(self, text: str) -> "_Labels":
        # Long texts are not kept: pages of many nodes are read at the same time.
        key = text if len(text) < 1024 else hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key not in self._known:
            self._known[key] = _labels(text, self._read)
        return self._known[key]


def parse(
    text: bytes,
    wanted: Container[str],
    *,
    max_bytes: int = MAX_PAGE_BYTES,
    max_samples: int = MAX_SAMPLES,
    read: Mapping[str, int] | None = None,
) -> Page:
    """The samples of wanted metrics with labels; lines that do not fit, and those beyond the bounds, are left out."""
    reader = Reader(wanted, max_samples=max_samples, read=read)
    reader.feed(text[:max_bytes])
    return reader.page()


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels of a line that are read; `whole` unless something in them does not fit, and then those before it."""

    read: Mapping[str, str]
    whole: bool


def _labels(text: str, read: Mapping[str, int] | None) -> _Labels:
    """The labels of a text that must be a list of labels, each once."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    most = MAX_LABELS if read is None else MAX_PASSED_LABELS
    at = 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None or label[1] in seen or len(seen) >= most:
            return _Labels(found, whole=False)
        name, at = label[1], label.end()
        seen.add(name)
        longest = MAX_VALUE_CHARACTERS if read is None else read.get(name)
        if longest is None:
            continue
        value = _ESCAPE.sub(lambda part: "\n" if part[1] == "n" else part[1], label[2]) if "\\" in label[2] else label[2]
        if len(value) > longest:
            return _Labels(found, whole=False)
        if value:
            found[name] = value
    return _Labels(found, whole=True)


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
