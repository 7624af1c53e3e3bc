"""Shapes, shardings and device groups are read alike by the predictive reader and by Lark.

Tried on every text of these kinds in samples and corpus, and on damaged ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.shapes.replica_groups import DEVICE_LISTS
from hlo_lens.shapes.shape import SHAPES
from hlo_lens.shapes.sharding import SHARDINGS
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import decode
from tests import corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOUND: dict[str, str] = {
    "shape": r"(?<![\w])[a-z][a-z0-9]*\[[^\[\]\n]{0,40}\](?:\{[^{}\n]*\})?",
    "sharding": r"(?<= sharding=)\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]*\})*\})*\}",
    "groups": (
        r"(?<=replica_groups=)(?:\{(?:[^{}\n]|\{[^{}\n]*\})*\}|\[[^\s]*|mesh\[[^{\n]*\{[^}\n]*\})"
    ),
}
LANGUAGES = {"shape": SHAPES, "sharding": SHARDINGS, "groups": DEVICE_LISTS}
SEEDS: dict[str, tuple[str, ...]] = {
    "shape": (
        "f32[]",
        "bf16[2,<=3]{1,0:T(8,128)(2,1)L(1024)E(4)S(1)}",
        "s32[]{:T(128)S(2)}",
        "(f32[2]{0}, /*index=1*/(pred[], u8[4]{0}))",
        "token[]",
        "f8e4m3fn[4,5,6]{2,0,1}",
    ),
    "sharding": (
        "{replicated}",
        "{maximal device=3}",
        "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
        "{devices=[4,2]0,1,2,3,4,5,6,7}",
        "{{replicated}, {devices=[2]<=[2]}, {manual}}",
        "{mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)), [{'x', ?}, {}], replicated={'y'}}",
        "{mesh['x'=4,'y'=2], [{'x':(2)2}, {'y'}], unreduced={'x':(1)2}}",
        "{{mesh['x'=4], [{'x'}]}, {mesh['x'=4], []}}",
        "{mesh['x'=4,'y'=2], manual}",
        "{{mesh['x'=4], replicated}, {replicated}, {manual}, {unreduced}, {manual}, "
        "/*index=5*/{mesh['x'=4], unreduced}}",
    ),
    "groups": (
        "{}",
        "{{0,1},{2,3}}",
        "{{}}",
        "[2,4]<=[4,2]T(1,0)",
        "[2,4]<=[8]",
        "mesh['a'=2,'b'=4], device_ids=([2,2,2]T(0,2,1)) {'b':(2)2}",
        "mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a','b'}",
    ),
}


def result(read: Callable[[str], Any], text: str) -> object:
    """Return the result of a reader, or message and place of its error."""
    try:
        found = read(text)
    except DumpSyntaxError as error:
        return error.line, error.column, error.message
    return found, getattr(found, "text", None)


def assert_alike(kind: str, text: str) -> None:
    """Assert that the reader of a kind and its grammar make the same of a text."""
    language = LANGUAGES[kind]
    assert result(language.parse, text) == result(language.parse_with_lark, text), text


def texts() -> Iterator[str]:
    """Yield all texts of HLO that there are."""
    for path in (*corpus.sample_hlo(), *corpus.corpus_hlo()):
        yield decode(corpus.read(path))


@pytest.mark.parametrize("kind", FOUND)
def test_texts_of_real_dumps_are_read_alike(kind: str) -> None:
    found: set[str] = set()
    pattern = re.compile(FOUND[kind])
    for text in texts():
        found.update(pattern.findall(text))
    assert len(found) > 10
    for text in sorted(found):
        assert_alike(kind, text)


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_damaged_texts_are_read_or_refused_alike(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(SEEDS)))
    text = data.draw(st.sampled_from(SEEDS[kind]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 3)))
        token = data.draw(
            st.sampled_from(
                [*"{}[](),'=<?:0123 TESLx-", "<=", "device", "replicated", "99999999999", "'y'"]
            )
        )
        text = text[:start] + token + text[end:]
    assert_alike(kind, text)
