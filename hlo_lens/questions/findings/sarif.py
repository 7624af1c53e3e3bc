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
from collections.abc import Mapping, Sequence
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

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEMS = {"error": "error", "warning": "warning", "info": "recommendation"}
_TOPICS = {"M": "memory", "C": "collectives", "L": "layout", "X": "compilation"}
_PARTS = {"what": "What", "why_it_costs": "Why it costs", "fix": "Fix", "fine_when": "Fine when"}
_LONGEST = 1024
"""Characters of a description that GitHub accepts."""

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
    index = {rule["code"]: place for place, rule in enumerate(data["rules"])}
    results: list[dict[str, object]] = []
    notes: list[dict[str, object]] = []
    seen: Counter[str] = Counter()

    def note(level: str, text: str) -> None:
        notes.append({"level": level, "message": {"text": text}})

    for module in modules:  # no results is not clean
        if module["problem"]:
            note("error", f"{module['name']}: {module['problem']}")
        for one in module["undecided"]:
            note("warning", f"{module['name']}: {one['code']} not decided: {one['reason']}")
        for finding in module["findings"] or ():
            place = module if finding["source_file"] is None else finding
            if place["source_file"] is None:
                text = f"{finding['code']}: {finding['message']} (no line is known)"
                note(_LEVELS[finding["severity"]], text)
                continue
            location, line = _location(place["source_file"], place["source_line"], checkout)
            uri = location["artifactLocation"]["uri"]
            result = _result(finding, module["name"], index[finding["code"]], location)
            print_ = _fingerprint(finding, uri, line)
            seen[print_] += 1
            own = {"primaryLocationLineHash": f"{print_}:{seen[print_]}"}
            results.append({**result, "partialFingerprints": own})
    if len(results) > MOST_RESULTS:
        results.sort(key=lambda one: [*_LEVELS.values()].index(str(one["level"])))
        left_out = len(results) - MOST_RESULTS
        note("warning", f"{left_out} results left out: GitHub takes {MOST_RESULTS}")
    invocation = {
        "executionSuccessful": not any(module["problem"] for module in modules),
        "toolExecutionNotifications": notes,
    }
    driver = {
        "name": "hlo-lens",
        "semanticVersion": __version__,
        "version": __version__,
        "rules": [_rule(rule) for rule in data["rules"]],
    }
    name = f"{modules[0]['name']}/" if len(modules) == 1 else ""
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"hlo-lens/{name}"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results[:MOST_RESULTS],
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _rule(rule: Json) -> dict[str, object]:
    def cut(text: str) -> str:
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

    parts = [(head, rule[key]) for key, head in _PARTS.items()]
    return {
        "id": rule["code"],
        "name": "".join(word.capitalize() for word in str(rule["name"]).split("-")),
        "shortDescription": {"text": cut(rule["title"])},
        "fullDescription": {"text": cut(rule["what"])},
        "help": {
            "text": "\n\n".join(f"{head}: {text}" for head, text in parts),
            "markdown": "\n\n".join(f"**{head}.** {text}" for head, text in parts),
        },
        "defaultConfiguration": {"level": "warning"},
        "properties": {
            "tags": ["performance", _TOPICS.get(str(rule["code"])[:1], "xla")],
            "precision": "high",
            "problem.severity": "warning",
        },
    }


def _result(finding: Json, module: str, rule: int, location: Json) -> dict[str, object]:
    saves = savings_text(Saves(**finding["saves"]), finding["share"])
    saved = f" {saves[0].upper()}{saves[1:]}." if saves else ""
    result: dict[str, object] = {
        "ruleId": finding["code"],
        "ruleIndex": rule,
        "level": _LEVELS[finding["severity"]],
        # GitHub shows the first sentence in lists
        "message": {"text": f"{finding['message']}. {finding['fix']}.{saved}"},
        "locations": [{"physicalLocation": location}],
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


def _location(
    file: str, line: int | None, checkout: Checkout
) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Return the physical location of a line, and its text; None if the repository lacks it."""
    found = checkout.find(file)
    text = None if found is None or line is None else checkout.line_of(file, line)
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", "..", ".")]
    is_relative = not file.startswith(("/", "\\")) and ":" not in file[:3]
    ending = "/".join(parts if is_relative else parts[-2:]) or "unknown"
    indent = len(text) - len(text.lstrip()) if text and text.strip() else 0
    region = {
        "startLine": line or 1,
        "startColumn": 1 + indent,
        "endLine": line or 1,
        "endColumn": len(text or " ") + 1,
    }
    artifact = {"uri": quote(found or ending, safe="/~"), "uriBaseId": ROOT}
    return {"artifactLocation": artifact, "region": region}, text


def _fingerprint(finding: Json, uri: str, text: str | None) -> str:
    line = "".join((text or "").split())
    first = next(iter(finding["values"]), "")
    content = "\n".join((finding["code"], uri, line, "" if line else first))
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
