"""docs/config.md holds every key as the schemas have it, the YAML of the docs loads, and the JSON Schema agrees."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from supervisor import config
from supervisor.config import nodes
from supervisor.config.document import Reader
from supervisor.config.fields import Typed
from supervisor.config.problems import Problems
from supervisor.config.strict import Section, Strict
from supervisor.config.substitution import Substitution
from supervisor.config.types import TARGET_TYPES
from tests.config.doc_rows import SECTIONS, rows
from tests.config.support import DATA, ENVIRONMENT

ROOT = DATA.parent.parent.parent
DOCS = ROOT / "docs"
TEXT = (DOCS / "config.md").read_text()
SCHEMA = config.jsonschema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
BLOCKS = [
    (f"{name}:{number}", block)
    for name in ("config.md", "recipes.md", "webhooks.md", "expect.md")
    if (DOCS / name).exists()
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL))
    if re.match(r"(?:#.*\n)*(runtime|page|defaults|targets|webhooks|maintenance|include|x-\w+):", block)
]


def table(section: str) -> list[str]:
    """The rows of the table under the heading of a section."""
    found = re.search(rf"^#+ `{re.escape(section)}`\n(.*?)(?=^#|\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/config.md has no section `{section}`"
    return [line for line in found[1].splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_documented_as_it_is(section: str) -> None:
    """Type, default, meaning and example of each key stand in the docs, and no key that is not there."""
    assert table(section) == list(rows(SECTIONS[section]))


def test_no_section_is_forgotten() -> None:
    """Every schema that can be reached from the sections has a table of its own."""
    known = {entry if isinstance(entry, type) else type(entry) for entry in SECTIONS.values()}
    seen: set[type[Strict]] = set()

    def walk(schema: Strict) -> None:
        for field in schema.fields.values():
            if isinstance(field, Section) and type(field.inner) not in seen:
                seen.add(type(field.inner))
                walk(field.inner)

    for entry in SECTIONS.values():
        walk(entry() if isinstance(entry, type) else entry)
    names = {schema.__name__ for schema in seen - known}
    parts = {kind.defaults.__name__ for kind in TARGET_TYPES.values()}
    assert names <= parts, "those are parts of their target's section"


def test_every_example_is_accepted_by_its_field() -> None:
    """What the docs show as an example is a value of that key."""
    for entry in SECTIONS.values():
        for field in (entry() if isinstance(entry, type) else entry).fields.values():
            assert isinstance(field, Typed)
            assert field.doc, f"{field.name} has no description"
            if field.example is not None and "${" not in json.dumps(field.example):
                field.deserialize(field.example)


def load_beside(folder: Path, block: str) -> config.Loaded:
    """Load a block of the docs, beside a file that has what it may refer to."""
    (folder / "a.yaml").write_text(block)
    targets = "targets: [{id: beside, group: Shop, type: http, http: {url: 'http://127.0.0.1/'}}]\n"
    (folder / "z.yaml").write_text(targets)
    (folder / "conf.d").mkdir()
    variables = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)", block), "https://example.org/x")
    return config.load_all(folder, environ={**variables, "OPS_SECRET": ENVIRONMENT["OPS_SECRET"]})


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_yaml_of_the_docs_loads(name: str, block: str, tmp_path: Path) -> None:
    """Each block is a configuration as it stands, and the JSON Schema takes it."""
    load_beside(tmp_path, block)
    assert not [error.message for error in VALIDATOR.iter_errors(as_data(block.encode()))]


def as_data(content: bytes, environ: dict[str, str] | None = None) -> Any:
    """What an editor's YAML parser (1.2, core schema) sees of a file; with variables put in, what the loader sees."""
    document = Reader(Problems()).read(content, "x.yaml")
    if document is None:
        return None
    if environ is not None:
        Substitution(environ, (), Problems()).apply(document)
    return nodes.plain(nodes.data(document.root))


def test_the_schema_is_valid_and_stands_in_docs() -> None:
    """It is a JSON Schema 2020-12, and the file that the sample names is up to date."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    file = DOCS / "config.schema.json"
    if os.environ.get("UPDATE_DOCS"):
        file.write_text(json.dumps(SCHEMA, indent=1, ensure_ascii=False) + "\n")
    assert json.loads(file.read_text()) == SCHEMA, "write it anew: UPDATE_DOCS=1 pytest tests/config/test_docs.py"
    assert (ROOT / "config.yaml").read_text().startswith("# yaml-language-server: $schema=docs/config.schema.json")


VALID = [*sorted((DATA / "valid").glob("*.yaml")), ROOT / "config.yaml"]


@pytest.mark.parametrize("file", VALID, ids=[file.stem for file in VALID])
def test_the_schema_takes_what_the_loader_takes(file: Path) -> None:
    """Before and after variables are put in."""
    for environ in (None, ENVIRONMENT):
        assert not [error.message for error in VALIDATOR.iter_errors(as_data(file.read_bytes(), environ))]


# What a schema of one file can't know: places in the text, files, other values, what an expression means.
BEYOND = re.compile(
    r"yaml-|id-slug|id-twice|id-no-slug|url-forms|retry-|defaults-unused|tls|connect-to|body-with-head|body-two-rules|equals-|regex-|json-paths"
    r"|css-|xpath-|depends-|notify-|webhook-|maintenance-|variable-|include-|nagios|headers|auth|bodies|reference-|runtime|page"
    r"|name-comment|misplaced|env|operators"
)


def test_the_schema_refuses_what_an_editor_can_know() -> None:
    """Of the invalid files all but those whose fault lies beyond a schema, and most of these too."""
    refused, accepted = [], []
    for file in sorted((DATA / "invalid").glob("*.yaml")):
        value = as_data(file.read_bytes())
        if value is None:
            continue
        (accepted if VALIDATOR.is_valid(value) else refused).append(file.stem)
    assert not [name for name in accepted if not BEYOND.match(name)]
    assert len(refused) >= 60


def test_the_schema_says_what_keys_mean() -> None:
    """Each property has a description, for editors."""
    target = SCHEMA["properties"]["targets"]["items"]["oneOf"][0]["properties"]
    assert all("description" in target[key] for key in ("name", "interval", "http", "expect"))
