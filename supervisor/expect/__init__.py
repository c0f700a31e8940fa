"""Judge what a checker observed: stages in order, rules, operators. Pure: no sockets, no processes, no database.

judge.py       the stages of a verdict
rules.py       one rule on a text, document or header
operators.py   one operator on one value
select.py      JSONPath, CSS and XPath to values
content.py     a body, decoded (decode.py) and parsed (strictjson.py, markup.py) when a rule needs it
describe.py    the words of failures
checks.py      what the loader asks about expressions
spec.py        expectations as the loader makes them; observation.py: what checkers let us look at
"""

from supervisor.expect.checks import (
    check_css,
    check_json_path,
    check_regex,
    check_xpath,
    lint_css,
    lint_json_path,
    lint_regex,
    lint_xpath,
)
from supervisor.expect.command_stages import signal_name
from supervisor.expect.judge import Verdict, judge_command, judge_http

__all__ = [
    "Verdict",
    "check_css",
    "check_json_path",
    "check_regex",
    "check_xpath",
    "judge_command",
    "judge_http",
    "lint_css",
    "lint_json_path",
    "lint_regex",
    "lint_xpath",
    "signal_name",
]
