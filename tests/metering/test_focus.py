"""The bill: prices of any shape, rows of each day, and what the validator of FOCUS says of them."""

import contextlib
import csv
import io
import json
import shutil
import subprocess
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.metering import focus, prices
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.prices import Prices, PricesError
from bulkhead.metering.usagebook import Sums

GPU = "nvidia.com/gpu"
START = 491_004 * HOUR  # 2026-01-05T12:00Z
LISTED = '- {resource: nvidia.com/gpu, flavor: h100, perHour: "2.50"}\n- {resource: nvidia.com/gpu, perHour: 1.8}\n'
VALIDATOR = Path("build/focus-validator/bin/focus-validator")


def config_map(listed: str = LISTED, currency: Any = "EUR") -> dict[str, Any]:
    return {"data": {"currency": currency, "prices": listed}}


def bill(*usage: tuple[int, UsageKey, Sums], listed: Prices | None = None) -> list[dict[str, str]]:
    found = prices.read(config_map()) if listed is None else listed
    until = (max(hour for hour, _, _ in usage) + 1) * HOUR
    rows = ((*row, "") for row in usage)
    return [dict(row) for row in focus.rows(rows, since=START, until=until, prices=found, account="bulkhead")]


def used(
    hours: float, flavor: str = "h100", owner: str = "Job/train", at: int = 0, **more: float
) -> tuple[int, UsageKey, Sums]:
    sums = Sums(round(hours * HOUR), **{kind: round(amount * HOUR) for kind, amount in more.items()})
    return START // HOUR + at, UsageKey("red", "ml", owner, GPU, flavor), sums


def test_a_price_is_that_of_the_flavor_or_of_every_other_one() -> None:
    found = prices.read(config_map())
    assert found.currency == "EUR"
    assert found.of(GPU, "h100") == Decimal("2.50")
    assert found.of(GPU, "l4") == Decimal("1.8")
    assert found.of("nvidia.com/mig-1g.10gb", "") is None


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ("{}", "must be a list"),
        ("- 3", "entry 1: must have resource"),
        ("- {resource: a, perHour: 1, more: x}", "may have flavor"),
        ("- {resource: [a], perHour: 1}", "resource must be a name"),
        ("- {resource: a, flavor: '=x', perHour: 1}", "flavor must be a name"),
        ("- {resource: a, perHour: -1}", "perHour must be a number"),
        ("- {resource: a, perHour: .nan}", "perHour must be a number"),
        ("- {resource: a, perHour: .inf}", "perHour must be a number"),
        ("- {resource: a, perHour: true}", "perHour must be a number"),
        ("- {resource: a, perHour: 1e-9}", "perHour must be a number"),
        ("- {resource: a, perHour: '1000001'}", "perHour must be a number"),
        ("- {resource: a, perHour: 1}\n- {resource: a, perHour: 2}", "entry 2: a"),
        ("- &a [x]\n- *a", "anchors and aliases"),
        ("- {resource: a, perHour: 1", "must be a list in YAML"),
        ("!!python/object/apply:os.system ['true']", "must be a list in YAML"),
        ("- {resource: a, perHour: 1}\n" * 257, "at most 256 entries"),
        ("#" * 70_000, "at most 64 KiB"),
        ("[" * 5_000, "must be a list"),
    ],
)
def test_prices_that_do_not_fit_are_refused_with_their_value(listed: str, text: str) -> None:
    with pytest.raises(PricesError, match=text):
        prices.read(config_map(listed))


@pytest.mark.parametrize("currency", ["", "eur", "EURO", None, 3, "=EU"])
def test_a_currency_is_a_code(currency: Any) -> None:
    with pytest.raises(PricesError, match="currency"):
        prices.read(config_map(currency=currency))


@given(st.text(max_size=200), st.text(max_size=5))
def test_no_text_breaks_the_reader(listed: str, currency: str) -> None:
    for code in (currency, "EUR"):
        with contextlib.suppress(PricesError):
            prices.read(config_map(listed, code))


def test_what_was_held_is_billed_used_or_idle_and_reserved_is_not() -> None:
    (row,) = bill(used(2, idle=1, borrowed=1, reserved=5, measured=2, busy=0.5))
    assert row["BilledCost"] == row["ListCost"] == row["EffectiveCost"] == row["ContractedCost"] == "7.500000"
    assert (row["ConsumedQuantity"], row["PricingQuantity"], row["ListUnitPrice"]) == ("3.000000", "3.000000", "2.500000")
    assert (row["x_UsedHours"], row["x_IdleHours"], row["x_ReservedHours"]) == ("2.000000", "1.000000", "5.000000")
    assert (row["x_MeasuredHours"], row["x_BusyHours"]) == ("2.000000", "0.500000")
    assert row["SubAccountId"] == "red"
    assert json.loads(row["Tags"]) == {"namespace": "ml", "owner": "Job/train", "flavor": "h100"}


def test_each_day_has_its_row_within_the_period_and_the_month() -> None:
    rows = bill(*(used(1, at=hour) for hour in range(30)))
    assert [(row["ChargePeriodStart"], row["ChargePeriodEnd"], row["ConsumedQuantity"]) for row in rows] == [
        ("2026-01-05T12:00:00Z", "2026-01-06T00:00:00Z", "12.000000"),
        ("2026-01-06T00:00:00Z", "2026-01-06T18:00:00Z", "18.000000"),
    ]
    assert {(row["BillingPeriodStart"], row["BillingPeriodEnd"]) for row in rows} == {
        ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")
    }


def test_without_a_price_an_account_costs_nothing_and_says_no_price() -> None:
    (row,) = bill(used(2), listed=Prices())
    assert (row["BilledCost"], row["ListUnitPrice"]) == ("0.000000", "")


def test_two_tenants_that_had_a_name_on_one_day_have_rows_of_their_own() -> None:
    usage = ((*used(hours), uid) for hours, uid in ((2, "u-1"), (3, "u-2"), (1, "u-2")))
    found = list(focus.rows(usage, since=START, until=START + HOUR, prices=Prices(), account="bulkhead"))
    assert [(row["x_TenantUid"], row["SubAccountId"], row["x_UsedHours"]) for row in found] == [
        ("u-1", "red", "2.000000"),
        ("u-2", "red", "4.000000"),
    ]


def test_a_tenants_name_is_no_formula() -> None:
    (row,) = bill(used(1, owner="=cmd()"))
    assert row["ResourceName"] == "'=cmd()"
    assert not any(cell[:1] in {"=", "+", "-", "@"} for cell in row.values())


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 8), st.floats(0, 8), st.sampled_from(["h100", "l4"])), min_size=1))
def test_the_bill_adds_up_to_what_was_held(parts: list[tuple[int, float, float, str]]) -> None:
    usage = [used(one, flavor, at=at, idle=other) for at, one, other, flavor in parts]
    rows = bill(*usage)
    held = Decimal(sum(sums.used + sums.idle for _, _, sums in usage)) / HOUR
    billed = sum((Decimal(row["ConsumedQuantity"]) for row in rows), Decimal(0))
    assert abs(billed - held) < Decimal("0.001")
    for row in rows:
        assert datetime.fromisoformat(row["ChargePeriodStart"]) < datetime.fromisoformat(row["ChargePeriodEnd"])
        assert set(row) == set(focus.COLUMNS)


@pytest.mark.skipif(not VALIDATOR.exists(), reason="focus-validator has a venv of its own: make focus-validator")
def test_the_validator_of_focus_accepts_the_bill(tmp_path: Path) -> None:
    """focus-validator 1.0.0 asks for ChargeType, a column of FOCUS 0.5, and spells ResourceID: both are added here."""
    usage = [used(1, flavor, owner, at) for at in range(30) for flavor, owner in (("h100", "Job/a"), ("l4", "=b"), ("", "*"))]
    text = io.StringIO()
    writer = csv.DictWriter(text, (*focus.COLUMNS, "ResourceID", "ChargeType"))
    writer.writeheader()
    for row in bill(*usage):
        writer.writerow(row | {"ResourceID": row["ResourceId"], "ChargeType": row["ChargeCategory"]})

    def verdict(bill_text: str) -> str:
        (tmp_path / "bill.csv").write_text(bill_text)
        command = [str(VALIDATOR.resolve()), "--data-file", "bill.csv", "--validate-version", "1.0"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
        return done.stdout + done.stderr

    # It looks for the codes of currencies below the folder in which it runs.
    codes = tmp_path / "focus_validator" / "utils" / "currency_codes.csv"
    codes.parent.mkdir(parents=True)
    codes.write_text(",currency_codes\n0,EUR\n1,USD\n")
    assert "Validation succeeded" in (found := verdict(text.getvalue())), found
    # The control: it refuses a category that FOCUS does not have.
    assert "Validation failed" in verdict(text.getvalue().replace(",Compute,", ",Computers,"))
    shutil.rmtree(codes.parent)
