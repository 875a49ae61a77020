"""Quantities: what each spelling stands for and how a number is written; tests/apiserver/test_quantities.py asks a server."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import quantity
from bulkhead.api.quantity import Amount, InvalidQuantityError, base_units, of_base_units

MOST = 2**63 - 1
SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
FACTORS = {suffix: Fraction(10) ** power for suffix, power in SUFFIXES.items()} | {
    suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
}


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A spelling and the number that it stands for, rounded up to nano."""
    digits, decimals = draw(st.integers(0, 10**12)), draw(st.integers(0, 12))
    number = Fraction(digits, 10**decimals)
    text = f"{Decimal(digits).scaleb(-decimals):f}"
    if draw(st.booleans()):
        suffix, factor = draw(st.sampled_from(sorted(FACTORS.items())))
    else:
        power = draw(st.integers(-20, 20))
        suffix, factor = (
            f"{draw(st.sampled_from('eE'))}{draw(st.sampled_from(['', '+'])) if power >= 0 else ''}{power}",
            Fraction(10) ** power,
        )
    return f"{draw(st.sampled_from(['', '+']))}{text}{suffix}", Fraction(-(-number * factor * 10**9 // 1), 10**9)


@given(spelled())
def test_every_spelling_is_exact_and_its_canonical_form_is_the_same_number(made: tuple[str, Fraction]) -> None:
    text, number = made
    if number > MOST:
        with pytest.raises(InvalidQuantityError):
            quantity.parse(text)
        return
    assert Fraction(quantity.parse(text)) == number
    written = quantity.canonical(text)
    assert Fraction(quantity.parse(written)) == number
    assert quantity.canonical(written) == written
    assert Fraction(quantity.parse(quantity.canonical(quantity.parse(text)))) == number


@pytest.mark.parametrize(
    ("given_as", "written"),
    [
        ("1000", "1k"), (1000, "1k"), ("999", "999"), ("1500", "1500"), ("0.5", "500m"), (".5", "500m"), ("1.", "1"),
        ("0Gi", "0"),
        ("1e3", "1e3"), ("1E3", "1e3"), ("12e2", "1200"), ("1E", "1E"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("512", "512"),
        ("0.5Ki", "512"), ("1.5Gi", "1536Mi"), ("1024", "1024"), ("0.1n", "1n"), ("1.0001Ki", "1024102400u"), ("+7", "7"),
        (Decimal("0.25"), "250m"), (Decimal(2000), "2k"),
    ],
)  # fmt: skip
def test_how_a_quantity_is_written(given_as: Any, written: str) -> None:
    assert quantity.canonical(given_as) == written


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "-1",
        "1 ",
        " 1",
        "1K",
        "1ki",
        "Gi",
        "1..2",
        "e3",
        "1e",
        "1e3k",
        "0x1",
        "NaN",
        "\u0661",
        "1\n",
        True,
        None,
        0.5,
        2**63,
    ],
)
def test_a_text_that_is_not_a_quantity_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidQuantityError):
        quantity.parse(wrong)


@pytest.mark.parametrize(
    ("written", "mib"),
    [
        ("1Gi", 1024),
        ("1.5Gi", 1536),
        ("1G", 953),
        ("1048576", 1),
        ("100k", 0),
        ("2Ti", 2 * 1024 * 1024),
        ("1e9", 953),
        ("1Pi", 2**30),
    ],
)
def test_memory_in_whole_mebibytes(written: str, mib: int) -> None:
    assert quantity.mebibytes(written) == mib


def test_a_number_is_written_like_another_quantity() -> None:
    number = Decimal(65 * 2**30)
    assert quantity.canonical(number, like="64Gi") == "65Gi"
    assert quantity.canonical(number, like="64G") == quantity.canonical(number) == "69793218560"
    assert quantity.canonical(Decimal("1.5"), like="1Ki") == "1500m"


def test_an_amount_is_read_once_and_keeps_the_notation_in_which_it_came() -> None:
    half = Amount.read("512Mi")
    assert (str(half), str(replace(half, number=half.number * 2)), half.is_whole) == ("512Mi", "1Gi", True)
    assert (str(Amount.read("1e3")), str(Amount.read(2000)), str(Amount.of(1000))) == ("1e3", "2k", "1k")
    assert (Amount.read("1500m").count, Amount.read("1500m").is_whole, Amount.read(7)) == (2, False, Amount.of(7))
    with pytest.raises(InvalidQuantityError):
        Amount.read("many")


RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "cpus", "requests.cpu"])
# To the smallest steps that an API server knows, and beyond what any context of decimals has digits for.
NUMBERS = st.integers(0, 2**63 * 10**9).map(lambda nano: Decimal(nano).scaleb(-9, quantity._EXACT))


@given(RESOURCES, NUMBERS)
def test_base_units_are_rounded_as_is_said_and_by_less_than_one(resource: str, number: Decimal) -> None:
    exact = Fraction(number) * (1000 if resource == "cpu" else 1)
    down, up = base_units(resource, number, "down"), base_units(resource, number, "up")
    assert exact - 1 < down <= exact <= up < exact + 1
    assert (down == up) == (exact.denominator == 1)


@given(RESOURCES, NUMBERS, st.lists(NUMBERS, max_size=4))
def test_what_fits_in_base_units_fits(resource: str, given_: Decimal, asked: list[Decimal]) -> None:
    if sum(base_units(resource, each, "up") for each in asked) <= base_units(resource, given_, "down"):
        assert sum(map(Fraction, asked)) <= Fraction(given_)


@given(RESOURCES, st.integers(0, 2**80), st.sampled_from(["up", "down"]))
def test_whole_base_units_come_back_as_they_were(resource: str, units: int, rounding: quantity.Rounding) -> None:
    assert base_units(resource, of_base_units(resource, units), rounding) == units


def test_of_cpu_base_units_are_thousandths() -> None:
    names = ("cpu", "memory", "nvidia.com/gpu")
    assert [base_units(name, Decimal("1.5"), "down") for name in names] == [1500, 1, 1]
    assert [base_units(name, Decimal("1.5"), "up") for name in names] == [1500, 2, 2]
    assert [base_units("cpu", Decimal("0.0015"), rounding) for rounding in ("down", "up")] == [1, 2]
    assert [of_base_units(name, 1500) for name in names] == [Decimal("1.5"), 1500, 1500]


WRITTEN: list[tuple[str, int, str]] = [
    ("cpu", 0, "0"),
    ("cpu", 1, "1m"),
    ("cpu", 1500, "1500m"),
    ("cpu", 4000, "4"),
    ("cpu", 2_000_000, "2k"),
    ("memory", 0, "0"),
    ("memory", 500, "500"),
    ("memory", 1000, "1k"),
    ("memory", 1024, "1Ki"),
    ("memory", 1500, "1500"),
    ("memory", 2_000_000_000, "2G"),
    ("memory", 3_000_000_000, "3G"),
    ("ephemeral-storage", 16 * 2**30, "16Gi"),
    ("hugepages-2Mi", 3 * 2**20, "3Mi"),
    ("memory", 2**64, "16Ei"),
    ("pods", 2000, "2000"),
    ("nvidia.com/gpu", 1024, "1024"),
]


@pytest.mark.parametrize(("resource", "units", "text"), WRITTEN)
def test_base_units_are_written_as_people_write_them(resource: str, units: int, text: str) -> None:
    assert quantity.written(resource, units) == text


@given(RESOURCES | st.sampled_from(["hugepages-1Gi", "pods"]), st.integers(0, 2**80))
def test_what_is_written_is_the_same_number_and_in_a_status_no_sum_is_too_long(resource: str, units: int) -> None:
    shown = quantity.shown(resource, units)
    assert len(str(shown)) <= 20
    assert isinstance(shown, int) == ("/" in resource)
    if units <= MOST:
        assert base_units(resource, quantity.parse(quantity.written(resource, units)), "up") == units
        assert str(shown) == quantity.written(resource, units)


@pytest.mark.parametrize("value", [True, False, None, 1.5, []])
def test_only_texts_and_numbers_are_quantities(value: Any) -> None:
    with pytest.raises(InvalidQuantityError):
        quantity.parse(value)
    assert not quantity.same(value, value)
    assert not quantity.same(value, "1")


@pytest.mark.parametrize("value", ["500m", "1.5"])
def test_a_number_of_devices_is_whole(value: str) -> None:
    with pytest.raises(InvalidQuantityError, match="is not a whole number"):
        quantity.whole(value)
    assert quantity.whole("2k") == 2000
