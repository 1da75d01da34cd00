"""Quantities, exact and with units."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumbbell._units import (
    Limit,
    format_bytes,
    format_rate,
    format_time,
    parse_bytes,
    parse_fraction,
    parse_limit,
    parse_rate,
    parse_time,
)

whole = st.integers(0, 10**17)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("80ms", 80_000_000),
        ("10us", 10_000),
        ("10µs", 10_000),
        ("1.5s", 1_500_000_000),
        ("0.1ms", 100_000),
        ("31.25us", 31_250),
        (".5s", 500_000_000),
        ("2min", 120 * 10**9),
        ("0ms", 0),
        ("0", 0),
        (0, 0),
        (" 5 ms ", 5_000_000),
    ],
)
def test_time(text: object, ns: int) -> None:
    assert parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("50Mbit", 50_000_000),
        ("50mbit", 50_000_000),
        ("1.5Gbit", 1_500_000_000),
        ("9600bit", 9600),
        ("256kbit", 256_000),
        ("1Mibit", 2**20),
        ("384Gbit", 384 * 10**9),
        ("1Tbit", 10**12),
        ("12Mbit/s", 12_000_000),
        # tc(8): "bps" is bytes per second, which only a capital B says beyond doubt.
        ("6.25MBps", 50_000_000),
        ("1kB/s", 8000),
    ],
)
def test_rate(text: str, bps: int) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "size"),
    [("1500B", 1500), ("64KiB", 65536), ("1MB", 10**6), ("1.5kB", 1500), ("2GiB", 2**31)],
)
def test_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("333p", Limit(Fraction(333), "packets")),
        ("64KiB", Limit(Fraction(65536), "bytes")),
        ("1bdp", Limit(Fraction(1), "bdp")),
        ("0.5bdp", Limit(Fraction(1, 2), "bdp")),
        ("0.1BDP", Limit(Fraction(1, 10), "bdp")),
    ],
)
def test_limit(text: str, limit: Limit) -> None:
    assert parse_limit(text) == limit


NOT_QUANTITIES = [
    "",
    "ms",
    "5",
    5,
    5.0,
    True,
    None,
    [],
    {},
    "5 5ms",
    "5xs",
    "-5ms",
    "-1Mbit",
    "-1B",
]
NOT_QUANTITIES += ["1e9s", "nan", "inf", "0x10B", "5ms5", "９ms", "1" * 400 + "s", "--5s", "5.5.5s"]


@pytest.mark.parametrize("value", NOT_QUANTITIES)
def test_refuses_what_is_no_quantity(value: object) -> None:
    for parse in (parse_time, parse_rate, parse_bytes, parse_limit):
        with pytest.raises(ValueError, match=r"^expected"):
            parse(value)


@pytest.mark.parametrize("text", ["50Mbps", "50mb", "50Mb", "5kb/s", "1bps"])
def test_refuses_rates_that_can_be_bits_or_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="expected a rate with unit") as raised:
        parse_rate(text)
    assert "\n" not in str(raised.value)


def test_says_how_to_write_an_ambiguous_rate() -> None:
    with pytest.raises(ValueError, match='write "Mbit" or "MBps"'):
        parse_rate("50Mbps")


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_time, "0.5ns"), (parse_rate, "1.5bit"), (parse_bytes, "1.5B")]
)
def test_never_rounds(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match="expected a whole number"):
        parse(text)


@given(whole)
def test_formats_read_back(number: int) -> None:
    assert parse_time(format_time(number)) == number
    assert parse_rate(format_rate(number)) == number
    assert parse_bytes(format_bytes(number)) == number


@given(st.integers(0, 10**9), st.integers(0, 9))
def test_decimals_are_exact(number: int, places: int) -> None:
    text = f"{number // 10**places}.{number % 10**places:0{places or 1}d}s"
    if places == 0:
        text = f"{number}s"
    assert parse_time(text) == number * 10 ** (9 - places)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 5, 8, 10, 1000]))
def test_limits_read_back(number: int, denominator: int) -> None:
    for unit in ("packets", "bytes"):
        limit = Limit(Fraction(number), unit)  # type: ignore[arg-type]
        assert parse_limit(str(limit)) == limit
    limit = Limit(Fraction(number, denominator), "bdp")
    assert parse_limit(str(limit)) == limit


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    for parse in (parse_time, parse_rate, parse_bytes, parse_limit):
        message = ""
        try:
            parse(text)
        except ValueError as error:
            message = str(error)
        assert "\n" not in message


@pytest.mark.parametrize("value", [0, 1, 0.25])
def test_fraction(value: float) -> None:
    assert parse_fraction(value) == value


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.1", True, float("nan"), "1%", None])
def test_refuses_what_is_no_fraction(value: object) -> None:
    with pytest.raises(ValueError, match="expected a fraction"):
        parse_fraction(value)
