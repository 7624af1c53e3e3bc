"""Facts from the dump of a compile on its out-of-memory message and its warnings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.logs.log import parse_log
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.log_in_dump import facts_of_dump
from hlo_lens.questions.sharding.savings import sharding_results
from tests import corpus

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.logs.compiler_output import LoggedWarning

FOLDER = corpus.SAMPLES / "tpu" / "wasteful"
NEW = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries ({used}) exceeds available HBM ({capacity}). HLO module: {name}."
)
OLD = "Ran out of memory in memory space hbm. Used {used} of {capacity} hbm."


def needed() -> int:
    (dump,) = hlo_lens.load(FOLDER).modules
    memory = memory_results(dump)
    assert memory is not None
    said = memory.statement
    return said.argument_bytes + said.output_bytes - said.alias_bytes + said.temp_bytes


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.2f}M"


def said(text: str, capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, object]:
    log = path / "oom.txt"
    log.write_text(text + "\n", "utf-8")
    main(["report", str(FOLDER), "--log", str(log), "-f", "json"], standalone_mode=False)
    (message,) = json.loads(capsys.readouterr().out)["log"]["compile_out_of_memory"]
    found = message["dump"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("form", [NEW, OLD])
def test_module_is_found_by_name_or_by_its_bytes(
    form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    size = needed()
    text = form.format(used=mebibytes(size), capacity="1.00M", name="jit_wasteful_step")
    found = said(text, capsys, tmp_path)
    assert (found["module"], found["agrees"]) == ("jit_wasteful_step", True)
    assert found["needed_bytes"] == size


def test_groups_are_the_bytes_of_replication_donation_and_the_peak(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = NEW.format(used=mebibytes(needed()), capacity="1.00M", name="jit_wasteful_step")
    groups = said(text, capsys, tmp_path)["groups"]
    assert isinstance(groups, list)
    (dump,) = hlo_lens.load(FOLDER).modules
    shardings, memory = sharding_results(dump), memory_results(dump)
    assert shardings is not None
    assert memory is not None
    assert memory.peak is not None
    axes = {axis: saved for axis, _, _, saved in shardings.replicated.by_axis.axes}
    assert set(axes) == {"data", "model"}
    by_kind = {kind: [g for g in groups if g["kind"] == kind] for kind in map(kind_of, groups)}
    assert {g["what"]: g["at_least_bytes"] for g in by_kind["replicated"]} == {
        f"replicated along {axis}": saved for axis, saved in axes.items()
    }
    assert by_kind["donation"][0]["buffers"] == 2  # planted: two weights that are not donated
    alive = sum(g["at_most_bytes"] for g in (*by_kind["arguments"], *by_kind["buffers"]))
    assert alive == memory.peak.total_bytes
    assert [g["at_most_bytes"] for g in groups] == sorted(
        (g["at_most_bytes"] for g in groups), reverse=True
    )
    for group in groups:
        assert group["is_enough"] in ("yes", "no", "perhaps")


def kind_of(group: dict[str, str]) -> str:
    return group["kind"]


@pytest.mark.parametrize(
    ("form", "used", "module", "agrees"),
    [
        (NEW, "1.00T", "jit_wasteful_step", False),
        (OLD, "1.00T", None, None),
        (NEW.replace("{name}", "jit_other"), "1.00T", None, None),
    ],
)
def test_dump_of_another_compile_is_reported(
    form: str,
    used: str,
    module: str | None,
    agrees: bool | None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    text = form.format(used=used, capacity="1.00M", name="jit_wasteful_step")
    found = said(text, capsys, tmp_path)
    assert (found["module"], found["agrees"]) == (module, agrees)
    assert (found["groups"] is None) == (module is None)


def test_page_has_the_facts_from_the_dump(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "oom.txt"
    size = mebibytes(needed())
    text = NEW.format(used=size, capacity="1.00M", name="jit_wasteful_step")
    log.write_text(text, "utf-8")
    main(["report", str(FOLDER), "--log", str(log)], standalone_mode=False)
    out = capsys.readouterr().out
    assert "of arguments, outputs and temporaries, as in the message" in out
    assert "replicated along data" in out
    log.write_text(text.replace("jit_wasteful_step", "jit_f"), "utf-8")
    main(["report", str(FOLDER), "--log", str(log)], standalone_mode=False)
    assert "not known: 0 modules of the dump may be that of the message" in capsys.readouterr().out


LOGS = corpus.SAMPLES / "logs"
LOG = (LOGS / "warned_jax_0_10_2.txt").read_text("utf-8")
UNKNOWN = (
    "Involuntary full rematerialization. The compiler cannot go from sharding "
    "{devices=[8,1,1]<=[8]} "
    "to {devices=[1,1,8]<=[8]} efficiently for HLO operation %copy.1 = f32[8,4,2]{2,1,0} "
    'copy(f32[8,4,2]{2,1,0} %p.0), metadata={op_name="jit(f)/a. b" source_file="x.py" '
    "source_line=7}. As the last resort, SPMD will replicate the tensor."
)


def warnings_of(text: str | bytes, folder: Path = LOGS / "warned") -> tuple[LoggedWarning, ...]:
    facts = facts_of_dump(parse_log(text), hlo_lens.load(folder).modules)
    assert facts is not None
    return facts.warnings.warnings


def joined(text: str) -> list[tuple[object, ...]]:
    warnings = warnings_of(text)
    return [(w.module, w.stage, w.instruction, w.how, w.source) for w in warnings]


def test_warnings_are_joined_with_their_instructions() -> None:
    first, second = joined(LOG)
    assert first == (
        "jit_reshape_across",
        "before",
        "reshape.3",
        "operation, opcode and shape",
        "warned.py:15",
    )
    assert second[:4] == (None, None, None, "names no instruction")


def test_bytes_of_the_whole_value_are_those_before_partitioning() -> None:
    assert warnings_of(LOG)[0].full_bytes == 128 * 32 * 12 * 4


def test_operation_missing_in_the_dump_is_not_found() -> None:
    ((module, _, instructions, how, source),) = joined(UNKNOWN)
    assert (module, instructions, how, source) == (None, None, "not found", "x.py:7")


def test_operation_of_another_opcode_is_found_by_its_path() -> None:
    text = LOG.replace("reshape(%transpose.0)", "copy(%transpose.0)")
    assert joined(text)[0][3] == "operation and shape"


NOT_OF_THE_DUMP = {
    "another shape": ("f32[128,4,12]", "f32[128,4,11]"),
    "another type": ("f32[128,4,12]", "bf16[128,4,12]"),
    "another number of devices": ("<=[8]", "<=[16]"),
}


@pytest.mark.parametrize(("old", "new"), NOT_OF_THE_DUMP.values(), ids=NOT_OF_THE_DUMP)
def test_warning_of_another_program_is_not_joined(old: str, new: str) -> None:
    text = LOG.replace("{devices=[4,1,2]<=[8]}", "{devices=[8,1,2]<=[16]}") if "16" in new else LOG
    changed = text.replace(old, new)
    assert changed != LOG
    assert joined(changed)[0][3] == "not found"


@corpus.needs_corpus
@pytest.mark.parametrize("backend", ["cpu8", "gpu-h100_sxm-1x1x8"])
def test_warning_of_the_corpus_is_joined(backend: str, tmp_path: Path) -> None:
    import tarfile

    folder = tmp_path
    archive = corpus.CORPUS / "dumps" / backend / "bad" / "full_remat.tar.gz"
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (stderr,) = folder.rglob("stderr.txt")
    (warning,) = warnings_of(stderr.read_bytes(), stderr.parent / "dump")
    assert warning.module == "jit_full_remat"
    assert warning.instruction is not None
    assert "," not in warning.instruction
    assert (warning.source or "").startswith("/home/user/bad.py:8")
