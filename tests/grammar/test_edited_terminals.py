"""Keywords stand in the grammars alone: readers and recognition of files follow an edit."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from tests import corpus
from tests.timing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {
    "HloModule": "HloProgram",
    "ENTRY": "START",
    "ROOT": "RESULT",
    "StackFrames": "CallFrames",
    "replica_groups": "device_groups",
    "BufferAssignment:": "MemoryPlan:",
    "allocation": "reservation",
    "value:": "tensor:",
    "Used values:": "Known values:",
    "positions:": "places:",
    "HloLiveRange": "HloLifetime",
    "BufferLiveRange:": "BufferLifetime:",
    "Memory Space:": "Memory Area:",
}

READ = r"""
import sys
from pathlib import Path
from hlo_lens.grammar import files
files.grammar_folder = lambda: Path(sys.argv[1])
from hlo_lens import parse_buffer_assignment, parse_buffer_values, parse_hlo, parse_live_range
from hlo_lens.text.dump_kinds import sniff, sniff_start

def edited(text):
    for word, other in WORDS.items():
        text = text.replace(word, other)
    return text

HLO = edited('''HloModule m, is_scheduled=true

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups=[1,2]<=[2], to_apply=%add
}

''')
ASSIGNMENT = edited('''BufferAssignment:
allocation 0: size 32, parameter 0, shape |f32[8]| at ShapeIndex {}, maybe-live-out:
 value: <0 p @0> (size=32,offset=0): f32[8]{0}
''')
VALUES = edited('''
Total bytes used: 32 (32B)

Used values:
<0 p @0>
 positions:
  p
 uses:
  r, operand 0
 from instruction: %p = f32[8]{0} parameter(0)
''')
RANGES = edited('''HloLiveRange (max 1):
  InstructionSequence:
    0:p
  BufferLiveRange:
    p{}:0-1
  Live ranges at 0 (peak):
    p: 32 bytes
''')
REPORT = edited("Memory Space: default (color=0)\nTotal bytes: 4 (4B)\n")

for text in (HLO, HLO.replace(" = ", "   =  ")):  # as printed, and for Lark
    module = parse_hlo(text)
    assert not module.gaps, module.gaps
    assert module.name == "m" and module.entry.root.name == "r", text
    assert len(module.stack_frames.frames) == 1
    assert not module.unknown_attributes, module.unknown_attributes
for space in (" ", "  "):
    plan = parse_buffer_assignment((ASSIGNMENT + VALUES).replace(" <0", space + "<0"))
    assert not plan.gaps, plan.gaps
    assert [value.name for value in plan.allocations[0].values] == ["p{}"]
    assert plan.values[0].instruction_name == "p"
    assert plan.is_complete
    ranges = parse_live_range(RANGES.replace("    p{}:", 4 * space + "p{}:"))
    assert not ranges.gaps and ranges.is_complete, ranges.gaps
    assert [r[2:] for r in ranges.buffer_live_ranges] == [(0, 1)]
kinds = [sniff(text).name for text in (HLO, ASSIGNMENT, VALUES, RANGES, REPORT)]
assert kinds == [
    "HLO", "BUFFER_ASSIGNMENT", "BUFFER_VALUES", "LIVE_RANGE", "MEMORY_USAGE_REPORT"
], kinds
assert sniff("log\n" + HLO).name == "HLO"
assert [sniff_start(t.encode()).name for t in (HLO, ASSIGNMENT, RANGES)] == [
    "HLO", "BUFFER_ASSIGNMENT", "LIVE_RANGE"
]
print("read")
"""


def run(folder: Path, words: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Read texts with other words by the grammars of a folder."""
    return subprocess.run(
        [sys.executable, "-c", f"WORDS = {words!r}\n{READ}", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=corpus.ROOT,
        timeout=PATIENCE_SECONDS,
    )


def edited(line: str) -> str:
    """Return a line of a grammar with other words in its terminals and in its examples."""
    name, colon, body = line.partition(":")
    if line.startswith("//"):
        name, colon, body = "", "", line
    elif not re.match(r"_*[A-Z]", name):
        return line
    for word, other in WORDS.items():
        body = re.sub(rf"(?<![A-Za-z_]){re.escape(word)}", other, body)
    return name + colon + body


def test_readers_and_recognition_follow_the_words_of_the_grammars(tmp_path: Path) -> None:
    for file in (corpus.ROOT / "grammars").glob("*.lark"):
        lines = file.read_text("utf-8").splitlines()
        (tmp_path / file.name).write_text("\n".join(map(edited, lines)) + "\n", "utf-8")
    done = run(tmp_path, WORDS)
    assert (done.stdout, done.returncode) == ("read\n", 0), done.stderr


def test_without_the_edit_the_texts_are_refused() -> None:
    assert run(corpus.ROOT / "grammars", {}).stdout == "read\n"
    assert run(corpus.ROOT / "grammars", WORDS).returncode != 0
