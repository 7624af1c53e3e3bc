"""Patterns and grammar read every instruction alike."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo.module_reader import parse_hlo_modules
from hlo_lens.text.source import Source, clean, decode
from tests import corpus
from tests.lark_alone import lark_alone

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = 400_000
"""Longest text, in characters, whose instructions the grammar reads, all of them."""

LINES = 400
"""Number of distinct instruction lines of longer texts that it reads."""


def skeleton(line: str) -> str:
    """Return a line without its numbers and strings."""
    return re.sub(r"\d+", "0", re.sub(r'"[^"]*"', '""', line))


def sample_of(text: str) -> str:
    """Return the header of a long text with one computation of its distinct instruction lines.

    Parameters are numbered anew, and of instructions of one name the first is taken.
    """
    head, _, body = text.partition("\n")
    lines: dict[str, str] = {}
    names: set[str] = set()
    count = itertools.count()
    for line in body.split("\n"):
        if line.startswith("  ") and " = " in line:
            name = line.replace("  ROOT ", "  ").split()[0]
            if skeleton(line) in lines or name in names:
                continue
            names.add(name)
            numbered = re.sub(r" parameter\(\d+\)", lambda _: f" parameter({next(count)})", line)
            lines[skeleton(line)] = numbered.replace("  ROOT ", "  ")
            if len(lines) >= LINES:
                break
    return "\n".join([head, "", "ENTRY sampled {", *lines.values(), "}", "", ""])


def assert_same(source: Source) -> None:
    """Assert that patterns and grammar give equal models of a source, without a gap."""
    (scanned,) = parse_hlo_modules(source)
    with lark_alone():
        (read,) = parse_hlo_modules(source)
    assert not scanned.gaps
    assert not read.gaps
    assert scanned == read


def assert_same_text(text: str, name: str) -> None:
    """Do the same for a text, or for a sample of a long one."""
    assert_same(clean(text if len(text) <= WHOLE else sample_of(text), name))


@pytest.mark.parametrize("path", corpus.sample_hlo(), ids=lambda p: "/".join(p.parts[-3:]))
def test_samples_read_alike(path: Path) -> None:
    assert_same_text(decode(corpus.read(path)), path.name)


@corpus.needs_corpus
@pytest.mark.parametrize("path", corpus.corpus_hlo(), ids=lambda p: p.name)
def test_corpus_texts_read_alike(path: Path) -> None:
    if ".log" in path.name:
        pytest.skip("a log: the grammar reads modules only")
    assert_same_text(decode(corpus.read(path)), path.name)


@corpus.needs_corpus
@pytest.mark.parametrize("archive", corpus.some_archives())
def test_corpus_dumps_read_alike(archive: Path) -> None:
    for name, data in corpus.archived_hlo(archive):
        if re.search(r"\.\d{4}\.", name) and "flags_passes" in str(archive):
            continue  # passes of one compile are alike; the first and the last are read
        assert_same(clean(sample_of(decode(data)), name))


FORMS = {
    "thread": (
        "HloModule m\n"
        "\n"
        "%a (p: f32[]) -> f32[] {\n"
        "  %p = f32[] parameter(0)\n"
        '}, execution_thread="x"\n'
    ),
    "no shape": ("ENTRY e {\n  p = f32[2] parameter(0)\n  ROOT r = add(p, p)\n}\n"),
    "nested": (
        "ENTRY e {\n"
        "  p = f32[2] parameter(0)\n"
        "  ROOT r = add(negate(p), f32[2] exponential(p))\n"
        "}\n"
    ),
    "compact": (
        "ENTRY %e {\n"
        "  %w = (f32[2], (f32[2])) parameter(0)\n"
        "  ROOT %r = f32[2] add(%w#0, %w#1#0)\n"
        "}\n"
    ),
    "comments": (
        "HloModule m // name\n"
        "/* two\n"
        "lines */\n"
        "ENTRY e {\n"
        "  p = f32[] /* shape */ parameter(0) // done\n"
        "}\n"
    ),
    "wrapped": (
        "ENTRY e {\n"
        "  p = f32[] parameter(0)\n"
        "  ROOT c = f32[] custom-call(p),\n"
        '    custom_call_target="x",\n'
        '    backend_config={"a": {"b": "}"}}\n'
        "}\n"
    ),
    "raw dictionaries": (
        'HloModule m, frontend_attributes={a="b",c={d = {"}"}}}\n'
        "\n"
        "ENTRY e {\n"
        '  p = f32[] parameter(0), frontend_attributes={x="y",z={q}}, '
        "backend_config={uplo = 76 : ui8}\n"
        "}\n"
    ),
    "inline bodies": (
        "ENTRY e {\n"
        "  p = f32[] parameter(0)\n"
        "  ROOT w = f32[] while(f32[] p), condition=\n"
        "  {\n"
        "    t = f32[] parameter(0)\n"
        "    ROOT k = pred[] constant(true)\n"
        "  }, body=\n"
        "  {\n"
        "    ROOT t = f32[] parameter(0)\n"
        "  }\n"
        "}\n"
    ),
    "aliasing": (
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1,0}: (2, {3}) }, "
        "buffer_donor={ (0, {}), (1, {2}) }, entry_computation_layout={(f32[2]{0}, "
        "/*index=1*/s32[])->(f32[2]{0})}\n"
        "\n"
        "ENTRY e {\n"
        "  ROOT p = f32[2] parameter(0)\n"
        "}\n"
    ),
    "recovery table": (
        "HloModule m, origin_recovery_table={\n"
        '  {"new" {0}} : {"old"},\n'
        '  "\n'
        "  HloModule inner\n"
        "  ENTRY e {\n"
        '    ROOT p = f32[] parameter(0), metadata={op_name=\\"x\\"}\n'
        "  }\n"
        '  "\n'
        "}\n"
        "\n"
        "ENTRY e {\n"
        "  ROOT p = f32[] parameter(0)\n"
        "}\n"
    ),
    "deep dictionary": (
        f"ENTRY e {{\n  p = f32[2] parameter(0), backend_config={'{' * 60}{'}' * 60}\n}}\n"
    ),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_read_alike(text: str) -> None:
    assert_same(Source(text))
