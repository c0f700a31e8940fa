"""What must hold for any configuration, found by Hypothesis: merging, explaining, and never a traceback."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor import config
from supervisor.config import nodes
from supervisor.config.document import Reader
from supervisor.config.problems import Problems
from supervisor.config.resolve import duration_text, resolve, size_text
from supervisor.config.types.http import HTTP
from supervisor.errors import ConfigError
from tests.config.support import DATA, ENVIRONMENT

SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
VALID = (DATA / "valid" / "everything.yaml").read_text()

durations = st.integers(1, 400).map(lambda n: f"{n}s") | st.sampled_from(["1m", "2m30s", "1h", "1d"])
names = st.text("abcXYZ019-_", min_size=1, max_size=8)
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
header_names = st.sampled_from(["A", "a", "X-One", "x-one", "Accept"])
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10).map(
    lambda text: text.replace("$", "$$")
)
headers = st.dictionaries(header_names, header_values, max_size=3).filter(
    lambda found: len({name.lower() for name in found}) == len(found)
)
http_shared = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["GET", "HEAD", "POST"]),
        "headers": headers,
        "maxRedirects": st.integers(0, 10_000),
        "followRedirects": st.booleans(),
        "maxBodyBytes": st.integers(1, 10**9) | st.sampled_from(["1KB", "5 mb", "1GB"]),
        "tls": st.fixed_dictionaries(
            {}, optional={"verify": st.booleans(), "serverName": names, "minVersion": st.just("1.3")}
        ),
    },
)
common: dict[str, st.SearchStrategy[Any]] = {
    "timeout": durations,
    "failureThreshold": st.integers(1, 1000),
    "successThreshold": st.integers(1, 1000),
    "labels": st.dictionaries(
        st.sampled_from(["a", "b", "c"]), words.map(lambda text: text.replace("$", "$$")), max_size=3
    ),
    "notify": st.lists(st.sampled_from(["ops", "chat"]), unique=True, max_size=2),
}
targets = st.fixed_dictionaries(
    {"id": names.filter(lambda name: name[0].isalnum()), "type": st.just("http"),
     "http": http_shared.map(lambda found: {**found, "url": "http://127.0.0.1:8080/"})},
    optional={**common, "interval": durations, "group": words.map(lambda text: text.replace("$", "$$"))},
)  # fmt: skip
defaults = st.fixed_dictionaries({}, optional={**common, "http": http_shared})


def tree(value: dict[str, Any]) -> nodes.Mapping:
    """The value as if it stood in a file."""
    document = Reader(Problems()).read(json.dumps(value, ensure_ascii=False).encode(), "made.yaml")
    assert document is not None
    return document.root


@SETTINGS
@given(targets, defaults)
def test_resolve_is_idempotent(target: dict[str, Any], shared: dict[str, Any]) -> None:
    """Merging the same defaults again changes nothing, and what the target says always stands."""
    defaults_tree = tree({"interval": "30s", **shared})
    once = resolve(tree(target), defaults_tree, HTTP)
    twice = resolve(once, defaults_tree, HTTP)
    assert nodes.data(once) == nodes.data(twice)
    assert {key: entry.origin for key, entry in once.entries.items()} == {
        key: e.origin for key, e in twice.entries.items()
    }
    merged = nodes.data(once)
    for key, value in target.items():
        assert merged[key] == value or key in ("labels", "http")
    for key, value in target.get("labels", {}).items():
        assert merged["labels"][key] == value
    for key, value in target["http"].items():
        assert merged["http"][key] == value or key in ("headers", "tls")


@SETTINGS
@given(st.lists(targets, min_size=1, max_size=4, unique_by=lambda one: one["id"]), defaults)
def test_explained_yaml_loads_to_the_same(tmp_path: Path, found: list[dict[str, Any]], shared: dict[str, Any]) -> None:
    """Whatever the defaults were, the explicit form gives the same targets."""
    webhooks = [{"name": name, "url": "http://127.0.0.1/", "default": True} for name in ("ops", "chat")]
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(json.dumps({"targets": found, "defaults": shared, "webhooks": webhooks}, ensure_ascii=False))
    loaded = config.load_all(first, environ={})
    second.write_text(config.explain_yaml(loaded))
    assert config.load(second, environ={}).targets == loaded.config.targets
    for target in loaded.config.targets:
        paths = [line.path for line in config.explain(loaded, target.id)]
        assert len(paths) == len(set(paths))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


ODD: list[Any] = [
    *(None, True, False, 0, -1, 5, 1.5, 1e308, 10**30, "", " ", "x", "5", "30", "on"),
    *("${", "${TOKEN}", "${NOPE}", "${file:/}", "$$", "a\nb", "a\0b", "\u202e", "é" * 300),
    *("http://", "http://[", "[", "*", "(?", "$.", "//", [], [[]], [None], {}, {"": 1}, ["x"] * 50),
    *({"a": {"a": {"a": []}}}, {"regex": "("}, {"json": {"path": "$["}}, {"not": {"not": {}}}),
    {"exists": False, "count": 1},
]
SCALARS = [
    "!!float .nan",
    ".inf",
    "0x",
    "~",
    "&a *a",
    "*a",
    "!x y",
    "<<: *b",
    "? x",
    "- -",
    "|",
    ">",
    "%",
    "@",
    "`",
    "'",
    '"',
    "{",
    "\t",
]
WHOLE = Reader(Problems()).read(VALID.encode(), "everything.yaml")
assert WHOLE is not None
TREE = nodes.plain({key: value for key, value in nodes.data(WHOLE.root).items() if key != "x-anchors"})
PLACES = _places(TREE)


def try_to_load(folder: Path, text: str | bytes) -> None:
    """Load it: a configuration or a ConfigError whose every problem has a place. Nothing else may happen."""
    file = folder / "config.yaml"
    (folder / "secret.txt").write_text("file-secret-value\n")
    file.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    try:
        loaded = config.load_all(file, environ=ENVIRONMENT)
    except ConfigError as exc:
        assert all(one.line >= 1 and one.column >= 1 and one.message for one in exc.problems)  # noqa: PT017
        assert not any(category(char) in ("Cc", "Cs", "Zl", "Zp") for one in exc.problems for char in str(one))  # noqa: PT017
    else:
        for target in loaded.config.targets:
            config.explain(loaded, target.id)
        config.explain_yaml(loaded)
    config.fingerprint(file, environ=ENVIRONMENT)


@SETTINGS
@given(st.data())
def test_odd_values_never_give_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    """Any value anywhere, as JSON: it loads, or every problem has a place and a sentence."""
    changed = copy.deepcopy(TREE)
    for _ in range(data.draw(st.integers(1, 4))):
        *above, last = data.draw(st.sampled_from(PLACES[1:]))
        inner = changed
        try:
            for step in above:
                inner = inner[step]
            if data.draw(st.booleans()):
                inner[last] = data.draw(st.sampled_from(ODD))
            elif isinstance(inner, dict):
                inner[data.draw(st.sampled_from(["url", "x", "json", "", "not", "exists", "status"]))] = data.draw(
                    st.sampled_from(ODD)
                )
            else:
                del inner[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    try_to_load(tmp_path, json.dumps(changed))


@SETTINGS
@given(st.data())
def test_odd_text_never_gives_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    """Cuts, swaps and insertions in the text of a valid file."""
    text = VALID
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 12)))
        text = text[:at] + data.draw(st.sampled_from(SCALARS) | st.text(max_size=4)) + text[end:]
    try_to_load(tmp_path, text)


@SETTINGS
@given(st.binary(max_size=80) | st.text(max_size=80))
def test_anything_never_gives_a_traceback(tmp_path: Path, text: str | bytes) -> None:
    """Not even a file that has nothing to do with us."""
    try_to_load(tmp_path, text)


@given(st.integers(0, 10**12))
def test_durations_and_sizes_are_written_as_they_are_read(number: int) -> None:
    """`duration_text` and `size_text` are the way back."""
    from supervisor.config.fields import duration_s

    assert math.isclose(duration_s(duration_text(number / 1000)), number / 1000, abs_tol=1e-6)
    if number:
        amount, unit = size_text(number)[:-2], size_text(number)[-2:]
        if unit in ("KB", "MB", "GB"):
            assert int(amount) * {"KB": 1024, "MB": 1024**2, "GB": 1024**3}[unit] == number


@pytest.mark.slow
def test_two_thousand_targets_load_in_time(tmp_path: Path) -> None:
    """2,000 targets load and validate in under 1.5 s of processor time (the machine may be busy)."""
    import time

    lines = ["targets:"]
    for number in range(2000):
        lines.append(f"""
  - {{id: t{number}, name: Target {number}, group: G{number % 20}, type: http, interval: 30s, labels: {{team: shop}},
     http: {{url: "http://127.0.0.1/{number}", headers: {{Authorization: "Bearer ${{TOKEN}}"}}}},
     expect: {{status: [200], maxDurationMs: 2000, headers: {{Content-Type: {{contains: json}}}},
       body: [{{contains: ok}},
         {{json: {{path: $.status, equals: ok}}}}, {{regex: '"v":"[0-9]+"'}}]}}, warn: {{maxDurationMs: 800}}}}""")
    (tmp_path / "config.yaml").write_text("\n".join(lines))
    spent = []
    for _ in range(3):
        started = time.process_time()
        assert len(config.load(tmp_path / "config.yaml", environ=ENVIRONMENT).targets) == 2000
        spent.append(time.process_time() - started)
    assert min(spent) < 1.5
