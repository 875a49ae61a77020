"""Reading and writing the text of exporters: bounds, escapes, and what does not fit."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from bulkhead.gpus import exposition
from bulkhead.gpus.exposition import Reader, Sample, parse, render
from bulkhead.gpus.fields import ABOUT, FIELDS, UTILISATION

DCGM = b"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100",\
Hostname="n1",container="main",namespace="bh-red-work",pod="x",empty=""} 87
DCGM_FI_DEV_FAN{gpu="0",UUID="GPU-1"} 3
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",err_msg="a \\"quote\\", a \\\\ and a comma, end"} 79 1700000000000
"""


def test_a_page_of_dcgm_exporter_is_read() -> None:
    page = parse(DCGM, FIELDS)
    assert page.left_out == 0
    utilisation, xid = page.samples
    assert utilisation.name == UTILISATION
    assert utilisation.value == 87
    assert utilisation.labels["modelName"] == "NVIDIA H100"
    assert "empty" not in utilisation.labels
    assert xid.labels["err_msg"] == 'a "quote", a \\ and a comma, end'


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} ',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} NaN',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} +Inf',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 0x10',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",gpu="1"} 1',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"pod="x"} 1',
        'DCGM_FI_DEV_GPU_UTIL{gpu="\\x"} 1',
        'DCGM_FI_DEV_GPU_UTIL{gpu="' + "x" * 254 + '"} 1',
        "DCGM_FI_DEV_GPU_UTIL{" + ",".join(f'l{number}="x"' for number in range(49)) + "} 1",
        'DCGM_FI_DEV_GPU_UTIL{gpu="' + "x" * 5000 + '"} 1',
    ],
)
def test_a_line_that_does_not_fit_is_left_out_and_counted(line: str) -> None:
    page = parse(line.encode(), FIELDS)
    assert (page.samples, page.left_out) == ((), 1)
    good = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n'
    assert len(parse((good + line + "\n" + good).encode(), FIELDS).samples) == 2


def test_a_page_has_bounds() -> None:
    line = b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n'
    page = parse(line * (exposition.MAX_SAMPLES + 5), FIELDS)
    assert len(page.samples) == exposition.MAX_SAMPLES
    assert page.left_out == 5
    cut = parse(b"#" * 2000 + b"\n" + line, FIELDS, max_bytes=2000)
    assert cut.samples == ()


READ = {"gpu": 253, "UUID": 253}


def test_labels_that_are_not_read_make_a_line_long_and_hide_nothing() -> None:
    """As dcgm-exporter writes a pod's labels on each line of its device; a pod may have 200 of 380 bytes."""
    others = ",".join(f'{"l" * 310}{number}="{"x" * 63}"' for number in range(200))
    page = parse(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1",{others},pod="x"}} 87\n'.encode(), FIELDS, read=READ)
    assert page.samples == (Sample(UTILISATION, {"gpu": "0", "UUID": "GPU-1"}, 87),)
    assert page.left_out == 0


@pytest.mark.parametrize("more", ['UUID="GPU-9"', 'l="' + "x" * exposition.MAX_PASSED_LINE_BYTES + '"', 'l="\\x"'])
def test_a_line_that_does_not_fit_still_names_its_device(more: str) -> None:
    page = parse(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1",{more}}} 87\n'.encode() * 2, FIELDS, read=READ)
    assert (page.samples, page.left_out, page.unreadable) == ((), 2, ({"gpu": "0", "UUID": "GPU-1"},))


@given(st.lists(st.integers(0, len(DCGM)), max_size=5))
def test_a_page_is_the_same_in_whatever_pieces_it_comes(cuts: list[int]) -> None:
    reader = Reader(FIELDS)
    ends = [0, *sorted(cuts), len(DCGM)]
    for begin, end in itertools.pairwise(ends):
        reader.feed(DCGM[begin:end])
    assert reader.page() == parse(DCGM, FIELDS)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(text: bytes) -> None:
    parse(b"DCGM_FI_DEV_GPU_UTIL{" + text, FIELDS)
    parse(text, FIELDS)


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=40)
_ROWS = st.tuples(
    st.sampled_from(sorted(FIELDS)),
    st.dictionaries(st.sampled_from("abc"), _TEXT, min_size=1),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(FIELDS)),
            st.dictionaries(st.sampled_from("abc"), _TEXT, min_size=1),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=5,
    )
)
def test_what_is_written_is_read_again(rows: list[tuple[str, dict[str, str], float]]) -> None:
    samples = [Sample(name, labels, value) for name, labels, value in rows]
    text = render(samples, ABOUT)
    again = parse(text, FIELDS)
    assert again.left_out == 0
    assert sorted(map(str, again.samples)) == sorted(map(str, samples))


def test_prometheus_reads_what_is_written() -> None:
    text = render(parse(DCGM, FIELDS).samples, {UTILISATION: ("gauge", "GPU utilization (in %).")})
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert families[UTILISATION].samples[0].value == 87
    assert families["DCGM_FI_DEV_XID_ERRORS"].samples[0].labels["err_msg"].startswith('a "quote", a \\')
