"""HLO texts that end too early: what needs the lost part is not known."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.report.module_page import module_object
from hlo_lens.text.errors import DumpSyntaxError
from tests.corpus import CORPUS, SAMPLES, needs_corpus

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.module import HloModule

STEM = "module_0000.jit_train_step.cpu_after_optimizations"
WHOLE = SAMPLES / "cpu" / "tp_mlp" / f"{STEM}.txt"
TEXTS = [
    WHOLE,
    *SAMPLES.glob("tpu/tp_mlp/*.after_optimizations.txt"),
    *SAMPLES.glob("gpu/tp_mlp/*gpu_after_optimizations.txt"),
    *SAMPLES.glob("cpu/shard_map_collectives/*.before_optimizations.txt"),
]
OF_ONE_RUN = ("flops", "flops_at_least", "flops_is_at_most", "memory", "output_rows")


def run(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    return runner.invoke(main, list(map(str, arguments)), catch_exceptions=False)


def object_of(module: HloModule) -> dict[str, Any]:
    return dict(module_object(modules_of(module)[0]))


def cuts(text: str) -> list[int]:
    """Return offsets before the end: each 50th line, and some inside lines."""
    lines = text.splitlines(keepends=True)
    at_lines = [len("".join(lines[:count])) for count in range(1, len(lines), 50)]
    chosen = random.Random(len(text)).sample(range(20, len(text.rstrip())), 8)
    return [*at_lines, *chosen]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: "/".join(path.parts[-3:]))
def test_figures_of_one_run_need_the_whole_entry(path: Path) -> None:
    text = path.read_text()
    for cut in cuts(text):
        module = parse_hlo(text[:cut])
        assert module.is_truncated, cut
        assert module.gaps, cut
        found = object_of(module)
        assert not any(found[name] is not None for name in OF_ONE_RUN), cut
        assert set(found["collectives"]["dynamic"].values()) == {None}
        assert found["collectives"]["wire_bytes_per_device"] is None
        assert found["sharding"]["rows"] is None


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_a_text_without_entry_has_no_parameters_of_a_loop_body(share: float) -> None:
    text = WHOLE.read_text()
    module = parse_hlo(text[: int(text.index("\nENTRY") * share)])
    found = object_of(module)
    assert not module.has_entry
    names = ("parameters", "parameter_rows", "output_rows", "largest_instructions", "source_bytes")
    assert [found[name] for name in names] == [None] * 5


def test_parameters_before_the_cut_are_known_if_all_are_there() -> None:
    text = WHOLE.read_text()
    found = object_of(parse_hlo(text[: text.rindex("  ROOT ")]))
    assert (found["parameters"], len(found["parameter_rows"])) == (6, 6)
    assert found["output_rows"] is None
    entry = text.index("\nENTRY")
    found = object_of(parse_hlo(text[: text.index("\n", text.index(" parameter(", entry)) + 1]))
    assert (found["parameters"], found["parameter_rows"]) == (None, None)


def test_the_last_line_before_a_cut_is_no_result() -> None:
    text = "HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n  q = f32[8] negate(p)\n"
    module = parse_hlo(text)
    assert module.entry.root is None
    assert not any(one.is_root for one in module.entry.instructions)
    assert parse_hlo(f"{text}}}\n").entry.root is not None


def test_a_text_that_ends_in_its_stack_tables_has_a_gap() -> None:
    text = WHOLE.read_text()
    for table in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
        start = text.index(f"\n{table}\n") + 1
        for end in (start + len(table) + 1, text.index("\n", start + len(table) + 2) + 1):
            module = parse_hlo(text[:end])
            assert (module.is_truncated, len(module.gaps)) == (True, 1)


@pytest.mark.parametrize("share", [0.5, 0.97])
def test_pages_of_a_cut_text_name_no_number_that_needs_the_rest(
    tmp_path: Path, share: float
) -> None:
    lines = WHOLE.read_text().splitlines(keepends=True)
    file = tmp_path / "cut.txt"
    file.write_text("".join(lines[: int(len(lines) * share)]))
    unknown = "not known: the text ends before the end of the entry"
    for command in ("report", "sharding"):
        said = run(command, file).stdout
        for label in ("outputs", "donation", "replicated"):
            (line,) = [line for line in said.splitlines() if line.startswith(label)]
            assert line.split(maxsplit=1)[1] == unknown
    assert "in one run" not in run("collectives", file).stdout.replace("known how many in one", "")
    assert ("no entry" in run("loops", file).stdout) is (share < 0.9)
    assert json.loads(run("ls", file, "-f", "json").stdout)["modules"][0]["signature"] is None


@pytest.mark.parametrize("share", [0.5, 0.97])
@pytest.mark.parametrize("is_head", [True, False])
def test_a_whole_and_a_cut_text_are_undecided(tmp_path: Path, share: float, is_head: bool) -> None:
    lines = WHOLE.read_text().splitlines(keepends=True)
    file = tmp_path / "cut.txt"
    file.write_text("".join(lines[: int(len(lines) * share)]))
    base, head = (WHOLE, file) if is_head else (file, WHOLE)
    compared = run("diff", base, head, "--exit-code")
    assert compared.exit_code == 4
    assert compared.stdout.startswith("hlo-lens diff: undecided: a text ends too early\n")
    for rule in ("collectives.static.*>+0", "collectives.dynamic.all-reduce>+0", "parameters>+0"):
        assert run("check", head, "--baseline", base, "--fail-on", rule).exit_code == 4


@needs_corpus
def test_cut_texts_of_the_corpus_have_gaps() -> None:
    found = 0
    for path in sorted((CORPUS / "texts" / "t").glob("*cut*")):
        try:
            module = parse_hlo(path.read_text(errors="replace"))
        except DumpSyntaxError:
            continue
        found += 1
        assert module.is_truncated
        assert set(object_of(module)["collectives"]["dynamic"].values()) == {None}
    assert found
