"""`${NAME}`, `${NAME:-default}`, `${file:PATH}` and `$$` inside values, after parsing: a value can't change the YAML.

What is put in is a secret, unless the variable is public or the value came from a `:-default`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from supervisor.config import reading, scalars
from supervisor.config.nodes import Document, Scalar, join
from supervisor.config.problems import Problems
from supervisor.model import Secret

_MARK = re.compile(r"\$\$|\$\{([^}]*)\}|\$\{")
_FORM = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<text>.*))?|file:(?P<file>.+)", re.DOTALL)
_EXPRESSIONS = frozenset({"regex", "match", "path"})  # where `${` may be meant as it stands
_MAX_FILE_BYTES = 65536
_SHORTEST_MASKED = 6


class Substitution:
    """One load's substitutions: what was put in, from where, and which variables only webhooks refer to."""

    def __init__(self, environ: Mapping[str, str], public: Iterable[str], problems: Problems) -> None:
        self._environ = environ
        self._public = frozenset(public)
        self._problems = problems
        self._sections: dict[str, set[str]] = {}
        self._variables: dict[str, Secret] = {}
        self._secrets: dict[Secret, None] = {}
        self.files: dict[str, bytes] = {}

    def apply(self, document: Document) -> None:
        """Put the values into every scalar of the document that asks for one."""
        for scalar, key, steps in document.dollars:
            path = ""
            for step in steps:
                path = join(path, step)
            self._scalar(scalar, key, str(steps[0]) if steps else "", path)

    def secrets(self) -> tuple[Secret, ...]:
        """Everything secret that was put in, of variables and of files."""
        return tuple(self._secrets)

    def webhook_only(self) -> frozenset[str]:
        """Variables that nothing but `webhooks:` refers to: commands never inherit them."""
        return frozenset(name for name, sections in self._sections.items() if sections == {"webhooks"})

    def inherited(self) -> tuple[Secret, ...]:
        """The secrets that a command finds in its environment, whoever they are for: its output may show them."""
        hidden = self.webhook_only()
        return tuple(secret for name, secret in self._variables.items() if name not in hidden)

    def _scalar(self, scalar: Scalar, key: str, section: str, path: str) -> None:
        values: list[str] = []
        shown: list[str] = []
        secrets: list[Secret] = []
        end = 0
        failed = False
        for found in _MARK.finditer(scalar.raw):
            put = self._one(found, scalar, key, section, path)
            if put is None:
                failed = True
                continue
            value, mask, secret = put
            between = scalar.raw[end : found.start()]
            values += (between, value)
            shown += (between, mask)
            if secret is not None:
                secrets.append(secret)
            end = found.end()
        if failed:
            return
        text = "".join(values) + scalar.raw[end:]
        scalar.shown = "".join(shown) + scalar.raw[end:]
        scalar.secrets = tuple(secrets)
        whole = _MARK.fullmatch(scalar.raw)
        scalar.value = scalars.resolve(text) if scalar.plain and whole and whole.group(1) is not None else text
        if secrets and whole and whole.group(1) is not None and text == "" and scalar.plain:
            scalar.value = ""  # set but empty is an empty text, not "nothing"

    def _one(
        self, found: re.Match[str], scalar: Scalar, key: str, section: str, path: str
    ) -> tuple[str, str, Secret | None] | None:
        """The value, how it is shown, and the secret if it is one; None when the problem was noted."""
        if found.group() == "$$":
            return "$", "$", None
        inner = found.group(1)
        form = _FORM.fullmatch(inner) if inner is not None else None
        if form is None:
            if key in _EXPRESSIONS:
                return found.group(), found.group(), None
            if inner is None:
                message = "${ has no } behind it: close it, or write $${ for a plain ${"
                self._problems.broken(scalar, path, message)
                return None
            self._problems.broken(
                scalar,
                path,
                f"{found.group()[:60]} is none of ${{NAME}}, ${{NAME:-default}}, "
                "${file:PATH}: write $${ for a plain ${",
            )
            return None
        if form["text"] and "${" in form["text"]:
            self._problems.broken(
                scalar,
                path,
                f"the default of ${{{form['name']}}} holds another ${{: a default is a plain text, set the variable",
            )
            return None
        if form["file"]:
            if "${" in form["file"]:
                message = "the path of ${file:...} holds another ${: a path is a plain text, write it out"
                self._problems.broken(scalar, path, message)
                return None
            return self._file(form["file"], scalar, path)
        return self._variable(form, scalar, section, path)

    def _variable(
        self, form: re.Match[str], scalar: Scalar, section: str, path: str
    ) -> tuple[str, str, Secret | None] | None:
        name = form["name"]
        self._sections.setdefault(name, set()).add(section)
        value = self._environ.get(name)
        if form["default"] and not value:
            return form["text"], form["text"], None
        if value is None:
            self._problems.broken(
                scalar,
                path,
                f"the variable {name} is not set: set it in the environment, or give a default: ${{{name}:-default}}",
            )
            return None
        if any("\ud800" <= char <= "\udfff" for char in value):
            self._problems.broken(scalar, path, f"the value of the variable {name} is not UTF-8")
            return None
        if name in self._public:
            return value, value, None
        secret = self._variables[name] = self._secret(name, value, scalar, path)
        return value, f"${{{name}}}", secret

    def _file(self, name: str, scalar: Scalar, path: str) -> tuple[str, str, Secret | None] | None:
        file = Path(scalar.file).parent / name
        try:
            content = reading.read(file, _MAX_FILE_BYTES)
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            self._problems.broken(scalar, path, f"the file {name} can't be read: {reason}")
            return None
        self.files[str(file)] = content
        if len(content) > _MAX_FILE_BYTES:
            self._problems.broken(
                scalar, path, f"the file {name} is larger than {_MAX_FILE_BYTES:,} bytes, too large for a value"
            )
            return None
        try:
            value = content.decode("utf-8-sig")  # editors on Windows put a byte order mark before it
        except UnicodeDecodeError:
            self._problems.broken(scalar, path, f"the file {name} is not UTF-8")
            return None
        value = value.removesuffix("\n").removesuffix("\r") if value.endswith("\n") else value
        whole = f"file:{file.absolute()}"
        return value, f"${{{whole}}}", self._secret(whole, value, scalar, path)

    def _secret(self, name: str, value: str, scalar: Scalar, path: str) -> Secret:
        if 0 < len(value) < _SHORTEST_MASKED:
            self._problems.warning(
                scalar,
                path,
                f"the value of ${{{name}}} has fewer than {_SHORTEST_MASKED} characters: it can be "
                "masked where it stands only, not in messages; name a variable that is no secret in "
                "runtime.publicVariables",
            )
        secret = Secret(name, value)
        self._secrets[secret] = None
        return secret
