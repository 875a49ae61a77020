"""Resource versions of a server that is not trusted. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.errors import ProtocolError
from bulkhead.kube.objects import is_older, version_number
from bulkhead.kube.proxy import _parse


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("7", 7),
        ("007", 7),
        ("18446744073709551615", 2**64 - 1),
        ("", None),
        ("-1", None),
        ("7 ", None),
        ("7\n", None),
        ("²", None),
        ("٣", None),
        ("9" * 21, None),
        ("9" * 5000, None),
    ],
)
def test_only_a_number_of_64_bits_is_one(version: str, number: int | None) -> None:
    assert version_number(version) == number


@given(st.text(alphabet="0123456789²٣ -"), st.text(alphabet="0123456789²٣ -"))
def test_of_two_at_most_one_is_older(left: str, right: str) -> None:
    assert not (is_older(left, right) and is_older(right, left))
    if version_number(left) is None or version_number(right) is None:
        assert not is_older(left, right)


def test_of_two_numbers_the_smaller_one_is_older() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "10")
    assert not is_older("10", "9")


@pytest.mark.parametrize("line", ["HTTP/1.1 ²00 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/2 200", "HTTP/1.1", ""])
def test_a_status_line_has_three_digits(line: str) -> None:
    with pytest.raises(ProtocolError):
        _parse(f"{line}\r\n\r\n".encode("latin-1"))
    assert _parse(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")[0] == 101
