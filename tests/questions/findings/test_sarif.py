"""Findings as SARIF, held against the parts of the standard that GitHub requires."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import hlo_lens
from hlo_lens.questions.findings import sarif
from hlo_lens.questions.findings.sarif import sarif_object
from hlo_lens.render.table import RENDERERS, RenderOptions
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source_files import Checkout
from tests.corpus import ROOT

_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"minLength": 1}}}
_POSITION = {"type": "integer", "minimum": 1}
_REGION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["startLine", "startColumn", "endLine", "endColumn"],
    "properties": dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), _POSITION),
}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_RULE = {
    "required": ["id", "shortDescription", "fullDescription", "help"],
    "properties": {
        "shortDescription": {**_TEXT, "properties": {"text": {"maxLength": 1024}}},
        "fullDescription": {**_TEXT, "properties": {"text": {"maxLength": 1024}}},
        "help": _TEXT,
        "properties": {
            "properties": {
                "tags": {"maxItems": 20},
                "precision": {"enum": ["very-high", "high", "medium", "low"]},
                "problem.severity": {"enum": ["error", "warning", "recommendation"]},
            }
        },
    },
}
_RESULT = {
    "required": ["ruleId", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "level": _LEVEL,
        "message": _TEXT,
        "locations": {
            "minItems": 1,
            "items": {
                "required": ["physicalLocation"],
                "properties": {
                    "physicalLocation": {
                        "required": ["artifactLocation", "region"],
                        "properties": {
                            "artifactLocation": {
                                "properties": {"uri": {"pattern": r"^[^/\\:][^\\:]*$"}}
                            },
                            "region": _REGION,
                        },
                    }
                },
            },
        },
        "partialFingerprints": {"required": ["primaryLocationLineHash"]},
        "suppressions": {
            "items": {
                "required": ["kind"],
                "properties": {"kind": {"enum": ["inSource", "external"]}},
            }
        },
    },
}
REQUIRED = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "maxItems": 20,
            "items": {
                "required": ["tool", "results", "automationDetails"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {"rules": {"items": _RULE}},
                            }
                        },
                    },
                    "results": {"maxItems": 25_000, "items": _RESULT},
                },
            },
        },
    },
}
"""What docs.github.com, "SARIF support for code scanning", requires."""

STANDARD = Path(__file__).parent / "sarif" / "sarif-2.1.0-rtm.5.json"
"""The schema of the standard; its source is in the README beside it."""

SAMPLES = sorted(
    str(path.relative_to(ROOT / "sample_dumps"))
    for room in ("cpu", "gpu", "tpu", "passes", "logs", "pairs")
    for path in (ROOT / "sample_dumps" / room).iterdir()
    if path.suffix != ".py" and path.name != "__pycache__"
)

STANDARD_VALIDATOR = jsonschema.Draft4Validator(json.loads(STANDARD.read_text("utf-8")))

WASTEFUL = ROOT / "sample_dumps" / "cpu" / "wasteful"


def _sarif(path: Path, checkout: Path = ROOT) -> dict[str, Any]:
    found = hlo_lens.lint(path)
    made: dict[str, Any] = json.loads(json.dumps(sarif_object(found.to_dict(), Checkout(checkout))))
    return made


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples_are_valid_by_the_standard_and_for_github(sample: str) -> None:
    found = _sarif(ROOT / "sample_dumps" / sample)
    jsonschema.validate(found, REQUIRED)
    STANDARD_VALIDATOR.validate(found)


def test_unknown_findings_do_not_look_clean() -> None:
    (run,) = _sarif(ROOT / "sample_dumps" / "logs" / "tpu_oom_libtpu_0_0_51.txt")["runs"]
    (invocation,) = run["invocations"]
    assert run["results"] == []
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], "no HLO text" in note["message"]["text"]) == ("error", True)
    (whole,) = _sarif(WASTEFUL)["runs"]
    assert whole["invocations"][0]["executionSuccessful"] is True


def test_more_results_than_github_takes_leave_the_lightest_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    found = _sarif(WASTEFUL)
    STANDARD_VALIDATOR.validate(found)
    (run,) = found["runs"]
    assert [one["level"] for one in run["results"]] == ["error", "warning", "warning"]
    notes = [one["message"]["text"] for one in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("results left out: GitHub takes 3" in text for text in notes)


def test_paths_are_relative_to_the_repository_and_regions_have_the_line() -> None:
    (run,) = _sarif(WASTEFUL)["runs"]
    first = next(one for one in run["results"] if one["ruleId"] == "M001")
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "sample_dumps/programs/wasteful.py"
    line = (ROOT / "sample_dumps/programs/wasteful.py").read_text("utf-8").splitlines()[99]
    assert location["region"] == {
        "startLine": 100,
        "startColumn": 1 + len(line) - len(line.lstrip()),
        "endLine": 100,
        "endColumn": len(line) + 1,
    }
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "M001"


def test_a_file_that_the_repository_lacks_keeps_the_end_of_its_path(tmp_path: Path) -> None:
    (run,) = _sarif(WASTEFUL, tmp_path)["runs"]
    uris = {
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]
    }
    assert "programs/wasteful.py" in uris


def test_fingerprints_differ_and_do_not_depend_on_the_line_number() -> None:
    data = hlo_lens.lint(WASTEFUL).to_dict()
    moved = json.loads(json.dumps(data))
    for module in moved["modules"]:
        for one in (module, *module["findings"]):
            one["source_line"] = one["source_line"] and one["source_line"] + 90_000
    before, after = (
        [
            one["partialFingerprints"]["primaryLocationLineHash"]
            for one in sarif_object(json.loads(json.dumps(found)), Checkout(Path("/nowhere")))[
                "runs"
            ][0]["results"]  # type: ignore[index] # lists and objects
        ]
        for found in (data, moved)
    )
    assert before == after
    assert len(set(before)) == len(before) > 2


def test_suppressed_findings_have_their_reason() -> None:
    data = json.loads(json.dumps(hlo_lens.lint(WASTEFUL).to_dict()))
    for one, reason in zip(
        data["modules"][0]["findings"], ("comment at a.py:1", "baseline b.json"), strict=False
    ):
        one.update(suppressed=True, suppressed_by=reason)
    results = json.loads(json.dumps(sarif_object(data, Checkout(ROOT))))["runs"][0]["results"]
    assert [one["suppressions"][0]["kind"] for one in results if "suppressions" in one] == [
        "inSource",
        "external",
    ]


def test_findings_without_any_line_are_notifications() -> None:
    data = json.loads(json.dumps(hlo_lens.lint(WASTEFUL).to_dict()))
    for one in (data["modules"][0], *data["modules"][0]["findings"]):
        one.update(source_file=None, source_line=None)
    (run,) = json.loads(json.dumps(sarif_object(data, Checkout(ROOT))))["runs"]
    assert run["results"] == []
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert len(notes) == len(data["modules"][0]["findings"])


def test_only_lint_has_findings_for_it() -> None:
    with pytest.raises(UsageError, match="only lint"):
        RENDERERS["sarif"](hlo_lens.report_on(WASTEFUL), io.StringIO(), RenderOptions())
