import os
import time
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Refused
from fairwarning.core.times import (
    _to_iso,
    format_duration,
    iso,
    parse_date,
    parse_duration,
    rfc1123,
)

MOMENTS = st.integers(min_value=0, max_value=253_402_300_799)  # to the end of the year 9999
DOCUMENTED = 1_474_309_787


@pytest.mark.spec("M8")
def test_the_documentations_own_date() -> None:
    """The date of Azure's documentation, in both formats."""
    assert rfc1123(DOCUMENTED) == "Mon, 19 Sep 2016 18:29:47 GMT"
    assert iso(DOCUMENTED) == "2016-09-19T18:29:47Z"


@pytest.mark.spec("M8")
@given(MOMENTS)
def test_dates_agree_with_the_standard_library(moment: int) -> None:
    """Our formatters, which ignore the locale, agree with the standard library."""
    when = datetime.fromtimestamp(moment, UTC)
    assert rfc1123(moment) == format_datetime(when, usegmt=True)
    assert iso(moment) == when.strftime(f"{when.year:04d}-%m-%dT%H:%M:%SZ")
    assert parsedate_to_datetime(rfc1123(moment)) == when


@pytest.mark.spec("M8")
@given(MOMENTS)
def test_dates_survive_the_round_trip(moment: int) -> None:
    """A formatted date parses to the same moment, in either format."""
    assert parse_date(rfc1123(moment)) == moment
    assert parse_date(iso(moment)) == moment


def test_dates_do_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time zone of the process has no effect."""
    try:
        monkeypatch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        assert rfc1123(DOCUMENTED) == "Mon, 19 Sep 2016 18:29:47 GMT"
        assert parse_date("2016-09-19T18:29:47") == DOCUMENTED
        assert parse_date("Mon, 19 Sep 2016 18:29:47 GMT") == DOCUMENTED
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != "Pacific/Auckland"


@pytest.mark.parametrize(
    "text",
    [
        "2016-09-19T18:29:47Z",
        "2016-09-19T18:29:47",
        "2016-09-19T18:29:47+00:00",
        "2016-09-19T20:29:47+02:00",
        "2016-09-19 18:29:47Z",
        "2016-09-19T18:29:47.500Z",
        "Mon, 19 Sep 2016 18:29:47 GMT",
    ],
)
def test_accepted_date_formats(text: str) -> None:
    """ISO 8601 with or without a zone, with fractions, and RFC 1123 are accepted."""
    assert parse_date(text) == DOCUMENTED


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("2016-09-19T18:29:47Z", "2016-09-19T18:29:47+00:00"),
        ("2016-09-19T18:29:47.5z", "2016-09-19T18:29:47.500000+00:00"),
        ("2016-09-19T18:29:47,1234567+02:00", "2016-09-19T18:29:47.123456+02:00"),
    ],
)
def test_dates_for_python_3_9(text: str, spelled: str) -> None:
    """The guest side runs on versions that know fewer spellings of ISO 8601 than others."""
    assert _to_iso(text) == spelled


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "soon", "19 Sep 2016", "2016-13-01T00:00:00Z", "2016-02-30T00:00:00Z",
        "Mon, 31 Feb 2016 18:29:47 GMT", "Mon, 19 Sep 2016 25:00:00 GMT",
        "Mon, 19 Foo 2016 18:29:47 GMT", "Mon, 19 Sep 2016 18:29:47 CET",
        "Mon, 19 Sep 2016 18:29:47 GMT ", "Maandag 19 sep 2016", "\ud800", "x" * 10_000,
        "Mon, \u0661\u0669 Sep 2016 18:29:47 GMT",
    ],
)  # fmt: skip
def test_invalid_dates(text: str) -> None:
    """An invalid date is refused briefly, with an example of both formats."""
    with pytest.raises(Refused) as refused:
        parse_date(text)
    assert refused.value.code == "BadDate"
    assert "2016-09-19T18:29:47Z" in refused.value.message
    assert len(refused.value.message) < 400


@given(st.text(max_size=40))
def test_any_text_is_a_date_or_refused(text: str) -> None:
    """Any text is parsed or refused."""
    try:
        parse_date(text)
    except Refused as refused:
        refused.message.encode()


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT5M", 300),
        ("PT15M", 900),
        ("PT0S", 0),
        ("PT300S", 300),
        ("PT0H5M", 300),
        ("PT1H30M", 5_400),
        ("P7D", 604_800),
        ("P1DT12H", 129_600),
        ("P1DT1H1M1S", 90_061),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    """ISO 8601 durations of days and smaller units are accepted."""
    assert parse_duration(text) == seconds


@pytest.mark.spec("T1")
@pytest.mark.parametrize(
    "text",
    [
        "", "P", "PT", "P1DT", "T5M", "5M", "10", "PT5", "PTM", "PT5M3H", "PT5M5M", "PT1.5M",
        "PT-5M", "-PT5M", "+PT5M", "pt5m", "PT5m", " PT5M", "PT5M\n", "P1Y", "P1M", "P1W",
        "PT\u0665M", "PT5M" * 3_000, "PT99999999999999999999S", "\ud800",
    ],
)  # fmt: skip
def test_invalid_durations(text: str) -> None:
    """An invalid duration is refused with an example."""
    with pytest.raises(Refused) as refused:
        parse_duration(text)
    assert refused.value.code == "BadDuration"
    assert "PT5M" in refused.value.message
    assert len(refused.value.message) < 400


@given(st.integers(min_value=0, max_value=7 * 86_400))
def test_durations_survive_the_round_trip(seconds: int) -> None:
    """A formatted duration parses to the same seconds."""
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "PT0S"), (300, "PT5M"), (5_400, "PT1H30M"), (90_061, "PT25H1M1S")]
)
def test_formatted_durations(seconds: int, text: str) -> None:
    """A formatted duration has only its nonzero parts."""
    assert format_duration(seconds) == text
