"""What fills a store, from the metrics of its API server."""

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import MESSAGE_LIMIT
from controller.plane.contents import MOST_KINDS, Contents, Kind, contents_of

MIB = 1 << 20


def metrics(*kinds: tuple[str, str, str, str]) -> bytes:
    lines = ["# HELP apiserver_resource_objects", 'apiserver_storage_objects{resource="configmaps"} 4']
    for group, resource, count, size in kinds:
        named = f'{{group="{group}",resource="{resource}"}}'
        lines += [f"apiserver_resource_objects{named} {count}", f"apiserver_resource_size_estimate_bytes{named} {size}"]
    return "\n".join(lines).encode()


def test_the_largest_kinds_come_first_with_counts_and_sizes() -> None:
    found = contents_of(
        metrics(
            ("", "secrets", "12", "40960"),
            ("", "configmaps", "220", "2.11e+08"),
            ("example.org", "widgets", "5", str(3 * MIB)),
            ("", "pods", "0", "0"),
            ("", "events", "-1", "-1"),
        )
    )
    assert found.kinds == (
        Kind("configmaps", 220, 211_000_000),
        Kind("widgets.example.org", 5, 3 * MIB),
        Kind("secrets", 12, 40960),
    )
    assert found.words == "most is in configmaps 220 (201Mi), widgets.example.org 5 (3Mi), secrets 12 (under 1Mi)"


def test_a_tenant_with_thousands_of_kinds_gets_ten_of_them_in_few_words() -> None:
    many = [(f"{'g' * 200}.{number:04}.org", "x" * 200, "1", str(number)) for number in range(6000)]
    found = contents_of(metrics(*many))
    assert len(found.kinds) == MOST_KINDS
    assert len(found.words) < MESSAGE_LIMIT // 2


def test_what_is_unknown_is_said_as_such() -> None:
    assert "unknown" in contents_of(b"go_info 1").words
    assert "the API server is silent" in Contents(unread="the API server is silent").words


def test_an_api_server_without_sizes_is_ordered_by_numbers() -> None:
    text = b'apiserver_resource_objects{group="",resource="pods"} 3\napiserver_resource_objects{group="",resource="secrets"} 9'
    assert [kind.name for kind in contents_of(text).kinds] == ["secrets", "pods"]


@given(st.binary(max_size=200))
def test_no_text_breaks_the_reader(text: bytes) -> None:
    for prefix in (b"", b"apiserver_resource_objects{", b'apiserver_resource_size_estimate_bytes{group="",resource="x"} '):
        contents_of(prefix + text)
