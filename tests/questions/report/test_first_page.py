"""The first page of ``hlo-lens report`` on samples and real dumps."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.commands import output_of
from tests.corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def step_and_helper(tmp_path: Path) -> Path:
    """Return a folder of a training step and a conversion of a few bytes."""
    small = (
        "HloModule jit_convert, is_scheduled=true\nENTRY %e {\n  ROOT %p = f32[2] parameter(0)\n}\n"
    )
    (tmp_path / "module_0001.jit_convert.cpu_after_optimizations.txt").write_text(small)
    step = next((ROOT / "sample_dumps/cpu/tp_mlp").glob("*cpu_after_optimizations.txt"))
    (tmp_path / f"module_0009.{step.name.partition('.')[2]}").write_bytes(step.read_bytes())
    return tmp_path


SAMPLES = sorted(
    path.relative_to(ROOT)
    for folder in (
        "cpu",
        "gpu",
        "tpu",
        "cpu_jax_0_4_30",
        "cpu_jax_0_12_0",
        "pairs/tpu",
        "pairs/gpu",
    )
    for path in (ROOT / "sample_dumps" / folder).iterdir()
)
MOST_LINES = 30


@pytest.mark.parametrize("path", SAMPLES, ids=str)
def test_page_has_at_most_30_lines(path: Path) -> None:
    for columns in (80, 100):
        lines = output_of(["report", str(path)], columns=columns).splitlines()
        assert len(lines) <= (MOST_LINES if columns >= 100 else MOST_LINES + 4)
        assert all(len(line) <= columns for line in lines if "hlo-lens " not in line)


def test_other_facts_and_tables_are_shown_in_full() -> None:
    command = ["report", "sample_dumps/tpu/tp_mlp"]
    first, more = output_of(command), output_of([*command, "--full"])
    for title in ("Memory of one device", "Parameters", "Opcodes as written", "donation  "):
        assert title not in first
        assert title in more
    assert first.splitlines()[-1] == "More  hlo-lens report sample_dumps/tpu/tp_mlp --full"


def test_verdict_comes_first_then_fixes_memory_bytes_sent_and_work() -> None:
    text = output_of(["report", "sample_dumps/tpu/tp_mlp", "--limit", "100MiB"])
    lines = text.splitlines()
    assert lines[:4] == [
        "jit_train_step",
        "8 devices (data=2 x model=4), TPU; figures are those of one device",
        "does not fit: 152.80MiB of 100.00MiB, 52.80MiB too much:",
        "hlo-lens fit sample_dumps/tpu/tp_mlp --limit 100MiB",
    ]
    order = [line.split()[0] for line in lines if line[:1].isalnum()]
    places = [order.index(word) for word in ("M007", "Memory", "Sent", "Work", "More")]
    assert places == sorted(places)
    assert "  80.00MiB  saved activations  bf16[4,4096,1024] at tp_mlp.py:34" in text
    assert "Sent  224.03MiB in one run: model 192.00MiB, data 32.03MiB; 4 collectives" in text
    for word in ("must fit", "understood", "scheduled", "live-range text", "exposed", ":("):
        assert word not in text


PLAIN = """HloModule step, is_scheduled=true

ENTRY main {
  x = f32[1024]{0} parameter(0)
  a = f32[1024]{0} exponential(x)@one
  b = f32[1024]{0} negate(a)@two
  ROOT c = f32[1024]{0} add(a, b)@two
}
"""
_OPS = "/env/lib/python3.11/site-packages/tensorflow/python/framework/ops.py"


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ("", ""),
        ('op_name="model/NAME"', "  by operation, arguments apart"),
        (
            f'op_name="model/NAME" source_file="{_OPS}" source_line=1221',
            "  by operation, arguments apart",
        ),
        ('op_name="model/NAME" source_file="train.py" source_line=7', "  by line, arguments apart"),
    ],
    ids=["no metadata", "operations", "one line of TensorFlow", "lines"],
)
def test_peak_is_shown_by_what_the_text_has(tmp_path: Path, metadata: str, title: str) -> None:
    text = PLAIN
    for name in ("one", "two"):
        written = f", metadata={{{metadata.replace('NAME', name)}}}" if metadata else ""
        text = text.replace(f"@{name}", written)
    file = tmp_path / "module_0000.step.cpu_after_optimizations.txt"
    file.write_text(text)
    page = output_of(["report", str(file)])
    assert (title or "Memory   ") in page
    assert ("apart" in page) is bool(title)
    assert "[unattributed]" not in page
    assert "ops.py" not in page


def test_other_modules_have_a_line_and_the_command_that_lists_them() -> None:
    text = output_of(["report", "sample_dumps/pairs/tpu"])
    assert re.search(r"^Others  \d+ other modules of \S+ in all", text, re.MULTILINE)
    assert "hlo-lens ls sample_dumps/pairs/tpu" in text


def test_the_three_findings_that_save_most_are_shown_whatever_their_severity() -> None:
    """As `lint` sorts them: the info of unknown saving comes last, and is not among them."""
    command = ["sample_dumps/cpu/wasteful"]
    page = output_of(["report", *command], columns=120)
    title = re.search(r"^4 to fix \((.*)\), \d+ to consider +hlo-lens lint", page, re.MULTILINE)
    assert "X006" not in page
    heads = re.compile(r"^([A-Z]\d{3} \w+) ", re.MULTILINE)
    listed = heads.findall(output_of(["lint", *command], columns=120))
    codes = Counter(head[:4] for head in listed if not head.endswith(" info"))
    assert title is not None
    assert title[1] == ", ".join(f"{code} x{n}" if n > 1 else code for code, n in codes.items())
    shown = heads.findall(page)
    assert shown in (listed[:2], listed[:3])  # as many as there is room for


def test_commands_of_a_module_that_the_user_chose_name_it() -> None:
    path, name = "sample_dumps/cpu/tp_mlp", "module_0000.jit_train_step"
    text = output_of(["report", path, "--module", name])
    assert f"hlo-lens lint {path} --module {name}" in text
    assert f"hlo-lens memory {path} --module {name} --by source" in text


@pytest.mark.parametrize("command", ["memory", "collectives", "sharding", "loops"])
def test_the_training_step_comes_first_for_people_alone(
    command: str, step_and_helper: Path
) -> None:
    words = [command, str(step_and_helper), "--module", "."]
    out = output_of(words)
    assert 0 <= out.find("jit_train_step") < out.find("jit_convert")
    data = output_of([*words, "-f", "json"])
    assert 0 <= data.find("jit_convert") < data.find("jit_train_step")
