"""Snapshot files that are damaged, of older schemas, or formatted by others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import hlo_lens
from hlo_lens.questions.diff.sides import snapshot
from hlo_lens.questions.snapshots.snapshot_file import read_snapshot_file, snapshot_text
from hlo_lens.text.errors import DumpSyntaxError
from tests.corpus import SAMPLES

BASE = SAMPLES / "pairs" / "tpu" / "base.tar.xz"
SCHEMA_1 = Path(__file__).parent / "schema_1.json"
"""``hlo-lens save sample_dumps/pairs/gpu/base.tar.xz``, written by commit 9f2baae."""


def _text(path: Path) -> str:
    return snapshot_text(snapshot(path), tool_version="1")


def _saved(tmp_path: Path, text: str) -> str:
    file = tmp_path / "base.json"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_compressed_snapshot_is_read(tmp_path: Path) -> None:
    file = tmp_path / "base.json.gz"
    file.write_bytes(gzip.compress(_text(BASE).encode()))
    assert hlo_lens.diff(file, BASE).identical


def test_a_snapshot_formatted_by_others_is_read(tmp_path: Path) -> None:
    text = json.dumps(json.loads(_text(BASE)), sort_keys=True)
    assert hlo_lens.diff(_saved(tmp_path, text), BASE).identical


def test_a_snapshot_of_schema_1_compares_like_a_new_one() -> None:
    pair = SAMPLES / "pairs" / "gpu"
    assert hlo_lens.diff(SCHEMA_1, pair / "base.tar.xz").identical
    (old,) = hlo_lens.diff(SCHEMA_1, pair / "f32_upcast.tar.xz").modules
    (new,) = hlo_lens.diff(pair / "base.tar.xz", pair / "f32_upcast.tar.xz").modules
    assert old.donations == new.donations
    assert old.shardings is not None
    assert new.shardings is not None
    assert old.shardings.entries == new.shardings.entries
    assert (old.shardings.unknown, new.shardings.unknown) == (1, 0)  # an output that XLA aliased
    assert old.collectives is not None
    assert new.collectives is not None
    hidden = old.collectives.place_of("base_is_exposed")  # "hidden" of older versions is not known
    for before, now in zip(old.collectives.rows(), new.collectives.rows(), strict=True):
        assert before[hidden] is not False
        assert before[:hidden] == now[:hidden]
        assert before[hidden + 1 :] == now[hidden + 1 :]


def test_a_snapshot_with_simulated_savings_is_read(tmp_path: Path) -> None:
    """As written while savings could be simulated, with ranges."""
    data = json.loads(_text(SAMPLES / "cpu" / "wasteful"))
    (module,) = data["modules"]
    saves = {"bytes": 4 << 20, "low": 0, "high": 4 << 20, "basis": "simulated"}
    module["report"]["findings"][0]["saves"] = saves
    module["report"]["findings_basis"]["not_simulated"] = "440 instructions, more than 100"
    made = _saved(tmp_path, json.dumps(data))
    assert hlo_lens.diff(made, SAMPLES / "cpu" / "wasteful").identical
    findings = read_snapshot_file(made).modules[0].facts.findings
    assert findings is not None
    assert (findings[0].saves.bytes, findings[0].saves.basis) == (4 << 20, "simulated")


def test_an_estimate_that_an_earlier_version_called_exact_is_not(tmp_path: Path) -> None:
    data = json.loads(_text(SAMPLES / "cpu" / "tp_mlp" / "compiled.txt"))
    bounds = {"temp_bytes": [5, 5], "peak_bytes": None}
    data["modules"][0]["report"]["memory"] |= {"is_exact": True, "range": bounds}
    (module,) = read_snapshot_file(_saved(tmp_path, json.dumps(data))).modules
    assert module.facts.memory is not None
    assert module.facts.memory.is_exact is False


def test_figures_of_an_older_definition_are_not_compared() -> None:
    (old,) = hlo_lens.diff(SCHEMA_1, SAMPLES / "pairs" / "gpu" / "f32_upcast.tar.xz").modules
    assert old.memory is not None
    total, temp = (old.memory.metrics[name] for name in ("total_bytes", "temp_bytes"))
    assert (total.base, total.delta, temp.delta) == (None, None, 570425600)
    assert (old.memory.peaks, old.unknown) == ((), ("memory",))


@pytest.mark.parametrize(
    ("rule", "status", "reason"),
    [
        ("memory.temp_bytes>+0", "pass", ""),
        ("memory.total_bytes>+0", "undecided", "a version without memory.total_bytes, or"),
        (
            "memory.hbm.total>+0",
            "undecided",
            "memory.spaces.total_bytes, or with another definition",
        ),
        ("memory.peak.bytes>+0", "undecided", "without memory.peak.bytes, or"),
        ("opcodes.*>+0", "pass", ""),
        ("flops>+0", "undecided", "saved by a version without flops, or"),
    ],
)
def test_rules_on_figures_that_schema_1_lacks_are_undecided(
    rule: str, status: str, reason: str
) -> None:
    head = SAMPLES / "pairs" / "gpu" / "base.tar.xz"
    (verdict,) = hlo_lens.check(head, baseline=SCHEMA_1, rules=[rule]).judgement.verdicts
    assert verdict.status == status
    assert reason in verdict.reason


def _damaged(change: object) -> str:
    data = json.loads(_text(BASE))
    assert callable(change)
    change(data)
    return json.dumps(data)


def _set(path: str, value: object) -> object:
    def change(data: dict[str, object]) -> None:
        place: object = data
        *front, last = path.split(".")
        for part in front:
            place = place[int(part) if part.isdecimal() else part]  # type: ignore[index] # JSON
        place[int(last) if last.isdecimal() else last] = value  # type: ignore[index] # JSON

    return change


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema_version", 4, "schema version 4, this hlo-lens reads up to 3"),
        ("schema_version", None, "has no schema_version"),
        ("kind", "report", "found a 'report'"),
        ("modules", 3, "modules is no list of objects"),
        ("modules.0.report", [], "modules[0].report is no object"),
        ("modules.0.name", 1, "modules[0].name is 1"),
        ("modules.0.peaks.0.bytes", 1, "has groups that do not sum to its bytes"),
        ("modules.0.peaks.0.bytes", "1", "modules[0].peaks[0].bytes is '1'"),
        ("modules.0.collectives.rows.0", [1], "has not one cell for each column"),
        ("modules.0.collectives.rows.0.0", 0, "has no number of equal rows"),
        ("modules.0.parameters", [], "modules[0].parameters is no table"),
        ("modules.0.outputs.rows.0", [1], "outputs.rows[0] has not one cell for each column"),
        ("modules.0.layouts", None, "modules[0].layouts is no table"),
        ("modules.0.layouts.rows.0.5", 99, "modules[0].layouts.rows[0].sharding is 99"),
        ("modules.0.shardings", None, "modules[0].shardings is None"),
        ("modules.0.fingerprint", 7, "modules[0].fingerprint is 7"),
        ("modules.0.report.memory.spaces", 1.5, "report.memory.spaces is 1.5"),
        ("modules.0.report.memory.spaces.0.color", True, "memory.spaces[0].color is True"),
        ("modules.0.report.opcodes.add", "5", "report.opcodes.add is '5'"),
        ("modules.0.report.memory.temp_bytes", float("nan"), "damaged: NaN is no number"),
        ("modules.0.report.memory.temp_bytes", float("-inf"), "damaged: -Infinity is no number"),
    ],
)
def test_a_damaged_snapshot_is_refused(
    tmp_path: Path, path: str, value: object, message: str
) -> None:
    file = _saved(tmp_path, _damaged(_set(path, value)))
    with pytest.raises(DumpSyntaxError) as caught:
        read_snapshot_file(file)
    assert message in str(caught.value)


def test_a_snapshot_without_its_parameters_is_refused(tmp_path: Path) -> None:
    data = json.loads(_text(BASE))
    del data["modules"][0]["parameters"]
    with pytest.raises(DumpSyntaxError, match=r"modules\[0\].parameters is missing"):
        read_snapshot_file(_saved(tmp_path, json.dumps(data)))


def test_infinite_and_endless_numbers_are_refused(tmp_path: Path) -> None:
    text = _text(BASE)
    for number in ("1e999", "9" * 5000):
        with pytest.raises(DumpSyntaxError, match="the snapshot is damaged"):
            read_snapshot_file(
                _saved(tmp_path, text.replace('"temp_bytes": ', f'"temp_bytes": {number}, "x": '))
            )


def test_a_cut_snapshot_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DumpSyntaxError, match=r"base\.json:\d+:\d+: error: this begins like JSON"):
        hlo_lens.diff(_saved(tmp_path, _text(BASE)[:2000]), BASE)
