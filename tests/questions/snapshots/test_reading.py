"""Snapshot files that are damaged, of other versions, or formatted by others."""

from __future__ import annotations

import base64
import json
import lzma
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.diff.sides import snapshot
from hlo_lens.questions.snapshots.snapshot_file import read_snapshot_file, snapshot_text
from hlo_lens.text.errors import DumpSyntaxError
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

BASE = SAMPLES / "pairs" / "tpu" / "base.tar.xz"


def _text(path: Path) -> str:
    return snapshot_text(snapshot(path), tool_version="1")


def _saved(tmp_path: Path, text: str) -> str:
    file = tmp_path / "base.json"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_snapshot_formatted_by_others_is_read(tmp_path: Path) -> None:
    text = json.dumps(json.loads(_text(BASE)), sort_keys=True)
    assert hlo_lens.diff(_saved(tmp_path, text), BASE).identical


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
        (
            "schema_version",
            3,
            "this hlo-lens reads 4; it was written by hlo-lens 1: save it again with",
        ),
        ("schema_version", 5, "hlo-lens 1: update hlo-lens, or save it again with this version"),
        ("schema_version", None, "schema version None, this hlo-lens reads 4"),
        ("kind", "report", "found a 'report'"),
        ("modules", 3, "modules is no list of objects"),
        ("modules.0.report", [], "modules[0].report is no object"),
        ("modules.0.name", 1, "modules[0].name is 1"),
        ("modules.0.peaks.0.bytes", 1, "has groups that do not sum to its bytes"),
        ("modules.0.peaks.0.bytes", "1", "modules[0].peaks[0].bytes is '1'"),
        ("modules.0.collectives.rows.0", [1], "has not one cell for each column"),
        ("modules.0.collectives.same.n", 0, "has no number of equal rows"),
        ("modules.0.parameters", [], "modules[0].parameters is no table"),
        ("modules.0.outputs.rows.0", [1], "outputs.rows[0] has not one cell for each column"),
        ("modules.0.parameters.rows.0.0", {"text": 9}, "parameters.rows[0].number is 9"),
        ("modules.0.texts", None, "modules[0].texts is None"),
        ("modules.0.program", 7, "modules[0].program is no object"),
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


@pytest.mark.parametrize("path", ["parameters", "report.memory.alias_bytes", "report.findings"])
def test_a_snapshot_without_a_figure_is_refused(tmp_path: Path, path: str) -> None:
    data = json.loads(_text(BASE))
    *front, last = path.split(".")
    place = data["modules"][0]
    for part in front:
        place = place[part]
    del place[last]
    with pytest.raises(DumpSyntaxError, match=rf"{last} is (missing|no table); save it again"):
        read_snapshot_file(_saved(tmp_path, json.dumps(data)))


def test_infinite_and_endless_numbers_are_refused(tmp_path: Path) -> None:
    text = _text(BASE)
    for number in ("1e999", "9" * 5000):
        with pytest.raises(DumpSyntaxError, match="the snapshot is damaged"):
            read_snapshot_file(
                _saved(tmp_path, text.replace('"temp_bytes": ', f'"temp_bytes": {number}, "x": '))
            )


def _packed(parts: object) -> str:
    return base64.b64encode(lzma.compress(json.dumps(parts).encode())).decode()


WRONG: tuple[object, ...] = ([], None, 7, {"hlo": 7}, {"mesh": 7}, {"options": [7]})
CUT = base64.b64encode(lzma.compress(b"{}")[:-8]).decode()


@pytest.mark.parametrize(
    "packed",
    ["$$$", "AAAA", "e30=", CUT, *map(_packed, WRONG)],
    ids=repr,
)
def test_a_damaged_program_is_refused_when_it_is_unpacked(tmp_path: Path, packed: str) -> None:
    file = _saved(tmp_path, _damaged(_set("modules.0.program.packed", packed)))
    with pytest.raises(DumpSyntaxError, match="the snapshot is damaged: its program"):
        hlo_lens.diff(file, BASE.with_name("four_layers.tar.xz"))


def test_a_cut_snapshot_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DumpSyntaxError, match=r"base\.json:\d+:\d+: error: this begins like JSON"):
        hlo_lens.diff(_saved(tmp_path, _text(BASE)[:2000]), BASE)
