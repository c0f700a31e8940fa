"""Monitoring plugins: exit codes, first line, performance data (Monitoring Plugins Development Guidelines)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.checkers.command.nagios import judge_exit, read_output
from supervisor.checkers.command.settings import CommandSettings, NagiosSettings
from supervisor.expect.spec import CommandExpect, Contains, TextRule
from supervisor.model import Metric, ResolvedTarget
from tests.make import make_target
from tests.pool.driver import Driver, driven


@pytest.fixture(scope="module")
def pool() -> Iterator[Driver]:
    with driven(1) as driver:
        yield driver


def plugin(script: str, expect: CommandExpect | None = None, **nagios: Any) -> ResolvedTarget:
    settings = CommandSettings(exec="sh", args=("-c", script), nagios=NagiosSettings(**nagios))
    return make_target(id="n", type="command", settings=settings, expect=expect or CommandExpect())


# --- exit codes -------------------------------------------------------------------------------------------------------


def test_ok_is_a_match_with_line_and_metrics(pool: Driver) -> None:
    """Exit code 0; the line before `|` is the detail."""
    [result] = pool.run(plugin("echo 'OK - load 0.5 | load1=0.500;5;10;0;'; echo long text"))
    assert result.matched
    assert result.status_detail == "OK - load 0.5"
    assert result.metrics == (Metric("load1", 0.5, "", "5", "10", 0.0, None),)


def test_warning_is_degraded_or_a_mismatch(pool: Driver) -> None:
    """As the target says; degraded is a match with a warning."""
    [result] = pool.run(plugin("echo 'WARNING - disk 90%'; exit 1"))
    assert result.matched
    assert result.warning is not None
    assert "WARNING - disk 90%" in result.warning.message
    [result] = pool.run(plugin("echo WARNING; exit 1", warning="mismatch"))
    assert not result.matched
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase) == ("mismatch", "exitCode")


def test_critical_is_a_mismatch(pool: Driver) -> None:
    """Exit code 2."""
    [result] = pool.run(plugin("echo 'CRITICAL - down | x=1'; exit 2"))
    assert result.success
    assert not result.matched
    assert result.failure is not None
    assert result.failure.phase == "exitCode"
    assert "CRITICAL - down" in result.failure.message
    assert result.metrics[0].label == "x"


@pytest.mark.parametrize("end", ["exit 3", "exit 4", "exit 127", "kill -9 $$"])
def test_unknown_is_an_error_or_a_mismatch(pool: Driver, end: str) -> None:
    """3, everything above and signals; phase exitCode in both cases."""
    [result] = pool.run(plugin(f"echo UNKNOWN; {end}"))
    assert not result.success
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase) == ("error", "exitCode")
    [result] = pool.run(plugin(f"echo UNKNOWN; {end}", unknown="mismatch"))
    assert result.success
    assert not result.matched


def test_other_stages_follow_for_ok_and_warning(pool: Driver) -> None:
    """A failed expectation outranks a warning."""
    expect = CommandExpect(stdout=(TextRule("contains", (Contains("never"),)),))
    for code in (0, 1):
        [result] = pool.run(plugin(f"echo fine; exit {code}", expect))
        assert result.failure is not None
        assert result.failure.phase == "stdout"


def test_a_silent_plugin_shows_its_exit_code(pool: Driver) -> None:
    """No line, no detail but the code."""
    [result] = pool.run(plugin("exit 2"))
    assert result.status_detail == "exitCode=2"


@pytest.mark.skipif(
    shutil.which("/usr/lib/nagios/plugins/check_dummy") is None, reason="needs monitoring-plugins-basic"
)
@pytest.mark.parametrize(("code", "matched"), [("0", True), ("1", True), ("2", False), ("3", False)])
def test_debians_plugins_work(pool: Driver, code: str, matched: bool) -> None:
    """check_dummy ends as it is told."""
    settings = CommandSettings("/usr/lib/nagios/plugins/check_dummy", (code, "said so"), nagios=NagiosSettings())
    [result] = pool.run(make_target(type="command", settings=settings, expect=CommandExpect()))
    assert result.matched is matched
    assert "said so" in result.status_detail


# --- performance data -------------------------------------------------------------------------------------------------

EXAMPLES = {
    # each from the documentation or the output of a plugin in wide use
    "OK|time=0.002722s;;;0.000000;10.000000 size=644B;;;0": [
        Metric("time", 0.002722, "s", "", "", 0.0, 10.0),
        Metric("size", 644.0, "B", "", "", 0.0, None),
    ],
    "DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968": [
        Metric("/", 2643.0, "MB", "5948", "5958", 0.0, 5968.0)
    ],
    "PING OK|rta=0.113000ms;100.000000;500.000000;0.000000 pl=0%;20;60;0": [
        Metric("rta", 0.113, "ms", "100.000000", "500.000000", 0.0, None),
        Metric("pl", 0.0, "%", "20", "60", 0.0, None),
    ],
    "OK|'a label with blanks'=1;@10:20;~:5;;": [Metric("a label with blanks", 1.0, "", "@10:20", "~:5", None, None)],
    "OK|'it''s'=1c": [Metric("it's", 1.0, "c")],
    "OK|'C:\\ %'=5%;80;90": [Metric("C:\\ %", 5.0, "%", "80", "90")],
    "OK|x=U;1;2;0;9": [Metric("x", None, "", "1", "2", 0.0, 9.0)],
    "OK|x=-1.5e3ms": [Metric("x", -1500.0, "ms")],
    "OK|a=1 b=2\nlong text\nmore|c=3\nd=4": [Metric(name, float(i + 1)) for i, name in enumerate("abcd")],
    "OK|good=1 bad good2=2 =3 'open=4": [Metric("good", 1.0), Metric("good2", 2.0)],
    "OK|a=1;;;;;;": [Metric("a", 1.0)],
    "OK|a=1,5s": [],
    "OK|''=5 b=1": [Metric("b", 1.0)],
    "OK|a=\u0663 b=\uff11 c=1;\u0663": [Metric("c", 1.0, "", "\u0663")],
    "\ufeffOK|a=1": [Metric("a", 1.0)],
    "OK|a=1,234.5 b=1.234,5 c=1": [Metric("c", 1.0)],
    "OK|a=999e999": [Metric("a", None)],
    "OK|a=.5 b=5.": [Metric("a", 0.5), Metric("b", 5.0)],
    "OK": [],
    "OK|": [],
    "|a=1": [Metric("a", 1.0)],
    "": [],
    "OK|a=1\r\n": [Metric("a", 1.0)],
}


@pytest.mark.parametrize("text", list(EXAMPLES), ids=list(EXAMPLES))
def test_performance_data_is_read_as_the_guidelines_have_it(text: str) -> None:
    """Labels, values, units and ranges; what is none is skipped."""
    assert list(read_output(text.encode()).metrics) == EXAMPLES[text]


def test_a_byte_order_mark_is_no_part_of_the_line() -> None:
    """Plugins in PowerShell write one."""
    assert read_output(b"\xef\xbb\xbfOK - fine|a=1").line == "OK - fine"


def test_performance_data_is_capped() -> None:
    """At most 50 values, labels cut at 64, and 4 KB in all."""
    many = " ".join(f"m{i}={i}" for i in range(200))
    metrics = read_output(f"OK|{many}".encode()).metrics
    assert len(metrics) <= 50
    long = " ".join(f"'{'x' * 500}{i}'={i}" for i in range(60))
    metrics = read_output(f"OK|{long}".encode()).metrics
    assert all(len(metric.label) <= 64 for metric in metrics)
    assert sum(len(json.dumps(metric.label)) for metric in metrics) < 4096


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(output: bytes) -> None:
    """No output of a plugin breaks the parser."""
    for metric in read_output(b"x|" + output).metrics:
        assert metric.label


@given(
    st.lists(
        st.tuples(
            st.text(
                st.characters(codec="utf-8", exclude_characters="'|\r\n\0", exclude_categories=("Cc",)), min_size=1
            ),
            st.floats(-1e12, 1e12),
            st.sampled_from(["", "s", "%", "MB", "c"]),
        ),
        max_size=5,
    )
)
def test_what_was_written_is_read_again(values: list[tuple[str, float, str]]) -> None:
    """Quoted labels and numbers survive."""
    data = " ".join(f"'{label}'={value!r}{unit}" for label, value, unit in values)
    wanted = [(label[:64], value, unit) for label, value, unit in values]
    read = read_output(f"OK|{data}".encode()).metrics
    assert [(metric.label, metric.value, metric.unit) for metric in read] == wanted[: len(read)]
    assert len(read) == len(wanted) or sum(len(label.encode()) for label, _, _ in values) > 200


def test_exit_codes_are_named() -> None:
    """The message is the sentence on the page."""
    failure, warning = judge_exit(-9, "", NagiosSettings())
    assert warning is None
    assert failure is not None
    assert failure.message == "the plugin says unknown (signal 9)"
