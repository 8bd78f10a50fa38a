"""The registry of metrics, and the metrics of a running agent."""

import math
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.agent_metrics import (
    CounterFamily,
    GaugeFamily,
    HistogramFamily,
    MetricFamily,
)
from tests.fixtures.http import fetch, free_port, local_url
from tests.guest.agents import AgentProcess, one_machine
from tests.guest.notices import NOTICE, NOW, event

pytestmark = pytest.mark.spec("G8")


def lines(family: MetricFamily) -> list[str]:
    """Return the lines of a metric, without the prefix."""
    return [line.removeprefix(agent_metrics.PREFIX) for line in family.samples()]


@pytest.mark.parametrize("amount", [12_345_678.0, 1.5e9 + 0.25, math.inf, -math.inf])
def test_numbers_keep_their_digits(amount: float) -> None:
    """An increment of a large number must be visible."""
    assert float(agent_metrics.number(amount)) == amount
    assert agent_metrics.number(math.nan) == "NaN"


def test_label_values() -> None:
    """A series exists as soon as its values are named; a hook's name may have any characters."""
    family = CounterFamily("a_total", "A.", ["hook"])
    family.create('say "hi"\\\n\ud800')
    assert lines(family) == ['a_total{hook="say \\"hi\\"\\\\\\n?"} 0']
    assert lines(CounterFamily("b_total", "B.")) == ["b_total 0"]


def test_the_time_to_the_next_event() -> None:
    """The earliest NotBefore of those that have not started; NaN without one."""
    later = event("B", notice=NOTICE + timedelta(minutes=1))
    assert agent_metrics.seconds_to_next([later, event("A")], NOW) == NOTICE.total_seconds()
    assert math.isnan(agent_metrics.seconds_to_next([event("A", started=True)], NOW))


def test_an_unknown_type_is_no_label_value() -> None:
    """A document could contain any number of them."""
    unknown = event("A", type="Meteor")  # type: ignore[arg-type]
    assert agent_metrics.type_label(unknown) == "other"
    assert agent_metrics.type_label(event("A")) == "Reboot"


def test_the_text_is_what_prometheus_reads() -> None:
    """Read with the parser of Prometheus's own client; every series has a type and a help."""
    counter = CounterFamily("a_total", "A.", ["hook"])
    gauge = GaugeFamily("b_seconds", "B\n\\.")
    histogram = HistogramFamily("c_seconds", "C.", ["hook"], (1, 10))
    counter.add('x"\\\n')
    gauge.set(math.nan)
    histogram.observe(2.5, "x")
    text = agent_metrics.render([counter, gauge, histogram])
    read = list(text_string_to_metric_families(text))
    assert [(family.type, family.documentation) for family in read] == [
        ("counter", "A."),
        ("gauge", "B\n\\."),
        ("histogram", "C."),
    ]
    assert text.endswith("\n")
    assert read[0].samples[0].labels == {"hook": 'x"\\\n'}
    assert [sample.value for sample in read[2].samples] == [0, 1, 1, 2.5, 1]


def test_the_metrics_of_an_agent(tmp_path: Path) -> None:
    """All series exist from the start, and an event is counted in each of its phases."""
    port = free_port()
    with one_machine(tmp_path) as (endpoint, home):
        home.usual_hooks(home.wait_script())
        home.hook("broken", "scheduled", "exit 3", "required = false")
        home.lines = [f'listen = "127.0.0.1:{port}"']

        def shown() -> dict[str, float]:
            text = fetch(local_url(port, "/metrics")).text
            assert list(text_string_to_metric_families(text))
            series = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
            assert len({name for name, _, _ in series}) == len(series)
            prefix = agent_metrics.PREFIX
            return {name.removeprefix(prefix): float(number) for name, _, number in series}

        with AgentProcess(home) as agent:
            agent.wait_until(lambda: "watching for" in agent.output())
            before = shown()
            assert before['hooks_total{hook="broken",phase="scheduled",result="failed"}'] == 0
            assert before['events_total{type="Freeze",phase="over"}'] == 0
            assert before['approvals_total{result="refused"}'] == 0
            assert math.isnan(before["next_event_seconds"])
            endpoint.restart("db_0")
            agent.wait_until(lambda: shown()["next_event_seconds"] > 0)
            home.release_hooks()
            over = 'hooks_total{hook="back",phase="over",result="ok"}'
            agent.wait_until(lambda: "flush" in home.ran())
            endpoint.finish("db")
            agent.wait_until(lambda: shown()[over] == 1)
            after = shown()
    assert set(before) == set(after)
    for phase in ("scheduled", "started", "over"):
        assert after[f'events_total{{type="Reboot",phase="{phase}"}}'] == 1
    assert after['hooks_total{hook="broken",phase="scheduled",result="failed"}'] == 1
    assert after['hook_duration_seconds_count{hook="drain",phase="scheduled"}'] == 1
    assert after['approvals_total{result="accepted"}'] == 1
    assert after['readings_total{result="ok"}'] >= 1
    assert after["last_reading_timestamp_seconds"] > 1_600_000_000
    assert math.isnan(after["next_event_seconds"])
