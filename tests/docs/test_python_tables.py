"""Tables of the topic on Python: each name exists, and has the attributes that its row names."""

from __future__ import annotations

import re
from functools import cache

import pytest

import hlo_lens
from tests.corpus import ROOT
from tests.docs.documents import MANUAL, prose

TOPIC = MANUAL / "python.md"
_ROW = re.compile(r"^\| (`[^|]*) \| (.*) \|$", re.MULTILINE)
_NAME = re.compile(r"`([A-Za-z_]\w*)[(`]")
_ATTRIBUTE = re.compile(r"`\.([\w.\[\]]+)(?:\(\))?`")
_TP_MLP = str(ROOT / "sample_dumps" / "tpu" / "tp_mlp")


@cache
def _example(name: str) -> object:
    """Return the result of a function, or an object of a type, on a sample."""
    module = hlo_lens.load(_TP_MLP).modules[0]
    assert module.hlo is not None
    root = module.hlo.entry.root
    assert root is not None
    objects: dict[str, object] = {
        "ModuleDump": module,
        "HloModule": module.hlo,
        "HloComputation": module.hlo.entry,
        "HloInstruction": root,
        "Shape": root.shape,
        "Layout": hlo_lens.Shape.parse("f32[2]{0}").layout,
        "HloSharding": hlo_lens.HloSharding.parse("{replicated}"),
        "parse_hlo": module.hlo,
        "why": hlo_lens.why(_TP_MLP, "all-reduce.11"),
        "diff": hlo_lens.diff(_TP_MLP, _TP_MLP),
        "check": hlo_lens.check(_TP_MLP, baseline=_TP_MLP),
    }
    return objects[name] if name in objects else getattr(hlo_lens, name)(_TP_MLP)


def _rows() -> list[tuple[str, str]]:
    return [
        (name, cells)
        for names, cells in _ROW.findall(prose(TOPIC))
        for name in _NAME.findall(names)
    ]


@pytest.mark.parametrize(("name", "cells"), _rows(), ids=lambda v: v if v.isidentifier() else "")
def test_attributes_of_a_row_exist(name: str, cells: str) -> None:
    assert name in hlo_lens.__all__
    for attribute in _ATTRIBUTE.findall(cells):
        found = _example(name)
        for part in re.findall(r"\w+|\[0\]", attribute):
            found = found[0] if part == "[0]" else getattr(found, part)  # type: ignore[index]  # a tuple


def test_every_public_name_is_in_the_topic() -> None:
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose(TOPIC)))))
    assert set(hlo_lens.__all__) - {"__version__"} <= words


def test_rows_have_attributes() -> None:
    assert sum(len(_ATTRIBUTE.findall(cells)) for _, cells in _rows()) > 40
