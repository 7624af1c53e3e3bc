"""Findings as SARIF 2.1.0, for code scanning on GitHub and for editors.

Sources: the OASIS standard, and docs.github.com, "SARIF support for code scanning": of each result
the first location counts, with a path relative to the repository and a complete region;
``partialFingerprints.primaryLocationLineHash`` identifies a result over commits. A finding without
a line is placed where the program is called; without that it becomes a notification.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from hlo_lens.questions.findings.finding import Saves, savings_text
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from hlo_lens.render.table import RenderOptions, Report

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
ROOT = "%SRCROOT%"

MOST_RESULTS = 25_000
"""Results of a run that GitHub takes."""

_GRAVEST_FIRST = ("error", "warning", "note")

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEMS = {"error": "error", "warning": "warning", "info": "recommendation"}
_TOPICS = {"M": "memory", "C": "collectives", "L": "layout", "X": "compilation"}
_LONGEST = 1024
"""Characters of a description that GitHub accepts."""

_KEPT_PARTS = 2

Json = Mapping[str, Any]


def render_sarif(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the findings of a report of ``lint``.

    Raises:
        UsageError: If the report has none.
    """
    if report.kind != "lint":
        raise UsageError("only lint has findings for -f sarif")
    json.dump(sarif_object(report.to_dict(), Checkout.here()), out, indent=1)
    out.write("\n")


def sarif_object(data: Json, checkout: Checkout) -> dict[str, object]:
    """Return the SARIF object of the JSON of ``lint``."""
    modules: Sequence[Json] = data["modules"]
    rules: Sequence[Json] = data["rules"]
    places = _Places(checkout)
    index = {rule["code"]: place for place, rule in enumerate(rules)}
    results: list[dict[str, object]] = []
    notes: list[dict[str, object]] = []
    for module in modules:
        notes += _open_questions(module)
        for finding in module["findings"] or ():
            where = places.of(finding) or places.of(module)
            if where is None:
                text = f"{finding['code']}: {finding['message']} (no line is known)"
                notes.append(_notification(_LEVELS[finding["severity"]], text))
            else:
                rule = index[finding["code"]]
                results.append(_result(finding, module["name"], rule, where, places))
    if len(results) > MOST_RESULTS:
        results.sort(key=lambda one: _GRAVEST_FIRST.index(str(one["level"])))
        text = f"{len(results) - MOST_RESULTS} results left out: GitHub takes {MOST_RESULTS}"
        notes.append(_notification("warning", text))
    invocation = {
        "executionSuccessful": not any(module["problem"] for module in modules),
        "toolExecutionNotifications": notes,
    }
    names = "+".join(module["name"] for module in modules[:1])
    run = {
        "tool": {"driver": _driver(rules)},
        "automationDetails": {"id": f"hlo-lens/{names}/" if len(modules) == 1 else "hlo-lens/"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results[:MOST_RESULTS],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _open_questions(module: Json) -> Iterator[dict[str, object]]:
    """Yield why findings of a module are not known, or some of them: no results is not clean."""
    if module["problem"]:
        yield _notification("error", f"{module['name']}: {module['problem']}")
    for one in module["undecided"]:
        yield _notification(
            "warning", f"{module['name']}: {one['code']} not decided: {one['reason']}"
        )


def _notification(level: str, text: str) -> dict[str, object]:
    return {"level": level, "message": {"text": text}}


def _driver(rules: Sequence[Json]) -> dict[str, object]:
    return {
        "name": "hlo-lens",
        "semanticVersion": __version__,
        "version": __version__,
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: Json) -> dict[str, object]:
    words = str(rule["name"]).split("-")
    parts = [(key, rule[key]) for key in ("what", "why_it_costs", "fix", "fine_when")]
    heads = {"what": "What", "why_it_costs": "Why it costs", "fix": "Fix", "fine_when": "Fine when"}
    text = "\n\n".join(f"{heads[key]}: {value}" for key, value in parts)
    markdown = "\n\n".join(f"**{heads[key]}.** {value}" for key, value in parts)
    return {
        "id": rule["code"],
        "name": "".join(word.capitalize() for word in words),
        "shortDescription": {"text": _cut(str(rule["title"]))},
        "fullDescription": {"text": _cut(str(rule["what"]))},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": "warning"},
        "properties": {
            "tags": ["performance", _TOPICS.get(str(rule["code"])[:1], "xla")],
            "precision": "high",
            "problem.severity": "warning",
        },
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _result(
    finding: Json, module: str, rule: int, where: _Place, places: _Places
) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": finding["code"],
        "ruleIndex": rule,
        "level": _LEVELS[finding["severity"]],
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": where.location}],
        "partialFingerprints": {"primaryLocationLineHash": places.fingerprint(finding, where)},
        "properties": {
            "module": module,
            "problem.severity": _PROBLEMS[finding["severity"]],
            "saves": {key: value for key, value in finding["saves"].items() if value is not None},
        },
    }
    if finding["suppressed"]:
        kind = "inSource" if str(finding["suppressed_by"]).startswith("comment") else "external"
        result["suppressions"] = [{"kind": kind, "justification": finding["suppressed_by"]}]
    return result


def _message(finding: Json) -> str:
    """Return message and fix; GitHub shows the first sentence in lists."""
    saves = savings_text(Saves(**finding["saves"]), finding["share"])
    saved = f" {saves[0].upper()}{saves[1:]}." if saves else ""
    return f"{finding['message']}. {finding['fix']}.{saved}"


class _Place:
    """A line of a file, with the columns of its text.

    Attributes:
        uri: Path relative to the repository.
        text: Text of the line; None if the repository lacks it.
        location: Its physical location.
    """

    def __init__(self, file: str, line: int, text: str | None) -> None:
        self.uri = quote(file, safe="/~")
        self.text = text
        width = len(text) if text else 1
        first = 1 + len(text) - len(text.lstrip()) if text and text.strip() else 1
        self.location = {
            "artifactLocation": {"uri": self.uri, "uriBaseId": ROOT},
            "region": {
                "startLine": line,
                "startColumn": first,
                "endLine": line,
                "endColumn": width + 1,
            },
        }


class _Places:
    """Lines of findings in a repository, and their fingerprints."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._seen: Counter[str] = Counter()

    def of(self, one: Json) -> _Place | None:
        """Return the place of a finding, or of the call of a module; None if not known."""
        file, line = one["source_file"], one["source_line"]
        if file is None:
            return None
        found = self._checkout.find(file)
        text = None if found is None or line is None else self._checkout.line(found, line)
        return _Place(found or _ending(file), line or 1, text)

    def fingerprint(self, finding: Json, where: _Place) -> str:
        """Return a digest of rule, file and text of the line, and the number of its repetition."""
        line = "" if where.text is None else "".join(where.text.split())
        first = next(iter(finding["values"]), "")
        content = "\n".join((finding["code"], where.uri, line, "" if line else first))
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8)
        self._seen[digest.hexdigest()] += 1
        return f"{digest.hexdigest()}:{self._seen[digest.hexdigest()]}"


def _ending(file: str) -> str:
    """Return the last parts of a path that the repository lacks."""
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", "..", ".")]
    is_relative = not file.startswith(("/", "\\")) and ":" not in file[:3]
    return "/".join(parts if is_relative else parts[-_KEPT_PARTS:]) or "unknown"
