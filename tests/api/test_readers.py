"""Texts read by the scanner and by the grammar alone, and the comparison of their models."""

from __future__ import annotations

import json
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.analysis.dumps.reader_comparison import DIFFERENT, EQUAL, REFUSED
from hlo_lens.api import readers
from hlo_lens.api.readers import compare_readers, compare_text
from hlo_lens.cli import main
from hlo_lens.syntax.hlo.module import parse_hlo
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import UnreadableError
from hlo_lens.text.source import clean
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.syntax.grammar.reader_choice import ReaderName
    from hlo_lens.text.source import Source

FOLDER = SAMPLES / "cpu" / "tp_mlp"
STEM = "module_0000.jit_train_step"
HLO = (FOLDER / f"{STEM}.before_optimizations.txt").read_text()


def test_texts_of_a_dump_are_read_alike() -> None:
    found = compare_readers(str(FOLDER))
    assert [(text.file, text.verdict) for text in found.texts] == [
        (path.name, EQUAL) for path in sorted(FOLDER.iterdir()) if path.suffix == ".txt"
    ]
    assert found.counts == {EQUAL: 7, DIFFERENT: 0, REFUSED: 0}
    assert {text.kind for text in found.texts} == {
        "HLO module",
        "BufferAssignment",
        "used values of a BufferAssignment",
        "HloLiveRange",
        "memory-usage report",
    }
    assert all(0 < text.scanner_seconds < (text.grammar_seconds or 0) for text in found.texts)


def test_a_file_and_an_archive_are_read_too(tmp_path: Path) -> None:
    path = FOLDER / f"{STEM}.before_optimizations.txt"
    (alone,) = compare_readers(str(path)).texts
    assert (alone.verdict, alone.characters) == (EQUAL, len(HLO))
    with tarfile.open(tmp_path / "dump.tar.gz", "w:gz") as archive:
        archive.add(FOLDER, "dump")
    assert compare_readers(str(tmp_path / "dump.tar.gz")).counts[EQUAL] == 7
    with pytest.raises(UnreadableError):
        compare_readers(str(tmp_path / "none"))


def test_progress_counts_files_or_characters_of_one_text() -> None:
    seen: list[tuple[int, int]] = []
    compare_readers(str(FOLDER), progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(len(list(FOLDER.iterdir()))))
    seen.clear()
    path = FOLDER / f"{STEM}.before_optimizations.txt"
    compare_readers(str(path), progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 1)
    assert seen[1:] == sorted(seen[1:])
    assert {total for _, total in seen[1:]} == {len(HLO)}


def test_a_text_of_before_2026_is_two() -> None:
    folder = SAMPLES / "cpu_jax_0_4_30" / "tp_mlp"
    path = folder / f"{STEM}.cpu_after_optimizations-buffer-assignment.txt"
    found = compare_readers(str(path)).texts
    assert [text.kind for text in found] == ["BufferAssignment", "HloLiveRange"]
    assert [text.verdict for text in found] == [EQUAL, EQUAL]


@pytest.mark.parametrize(
    ("text", "scanner"),
    [
        (HLO.replace("parameter(0)", "parameter(0) )", 1), "1 gap"),
        (f"compiling\n{HLO}", "1 other line"),
        (HLO + HLO, "1 gap"),
        (HLO + (FOLDER / f"{STEM}.cpu_after_optimizations-live-range.txt").read_text(), None),
    ],
    ids=["damaged", "in a log", "two modules", "with another dump"],
)
def test_a_text_with_gaps_or_other_lines_is_refused(text: str, scanner: str | None) -> None:
    found = compare_text(DumpKind.HLO, clean(text))
    assert found.verdict == REFUSED
    assert found.grammar is not None
    assert found.grammar.startswith("expected ")
    assert found.line is not None
    if scanner is not None:
        assert found.scanner == scanner


def test_a_text_that_the_grammar_alone_refuses_is_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def odd(text: Source, *, reader: ReaderName) -> object:
        return parse_hlo(text if reader == "scanner" else "ENTRY e {", reader=reader)

    monkeypatch.setitem(readers._PARSERS, DumpKind.HLO, odd)
    found = compare_text(DumpKind.HLO, clean(HLO))
    assert (found.verdict, found.line) == (DIFFERENT, 1)
    assert found.grammar is not None
    assert found.grammar.startswith("expected ")


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(
        main, ["doctor", *map(str, arguments)]
    )
    return result.exit_code, result.stdout, result.stderr


def test_doctor_prints_the_comparison(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.before_optimizations.txt"):
        shutil.copy(path, tmp_path)
    code, out, _ = run(tmp_path, "--reference")
    assert code == 0
    assert "1 equal, 0 different, 0 refused" in out
    code, out, _ = run(tmp_path, "--reference", "-f", "json")
    (row,) = json.loads(out)["reference"]["rows"]
    assert (row["file"], row["verdict"]) == (f"{STEM}.before_optimizations.txt", EQUAL)
    assert row["characters"] == len(HLO)
    assert json.loads(run(tmp_path, "-f", "json")[1])["reference"] is None


def test_doctor_fails_where_the_readers_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{STEM}.before_optimizations.txt").write_text(HLO)

    def odd(text: Source, *, reader: ReaderName) -> object:
        return parse_hlo(text.text.replace("4096", "4097" if reader == "grammar" else "4096"))

    monkeypatch.setitem(readers._PARSERS, DumpKind.HLO, odd)
    code, out, err = run(tmp_path, "--reference")
    assert code == 4
    assert "0 equal, 1 different" in out
    assert "scanner and grammar read a text differently" in err


def test_reference_needs_a_path() -> None:
    code, _, err = run("--reference")
    assert code == 2
    assert "name its PATH" in err
