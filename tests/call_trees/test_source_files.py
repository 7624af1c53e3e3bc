"""Relative files and packages of functions."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.call_tree import CallFrame
from hlo_lens.call_trees.source_files import Places


@pytest.mark.parametrize(
    ("file", "shown", "package"),
    [
        ("/home/me/p/x/a.py", "x/a.py", "x"),
        ("/home/me/p/train.py", "train.py", "."),
        ("/v/lib/python3.11/site-packages/torch/nn/m.py", "torch/nn/m.py", "torch/nn"),
        ("/usr/lib/python3.11/threading.py", "python/threading.py", "python"),
        ("<frozen importlib._bootstrap>", "python/importlib._bootstrap", "python"),
        ("<string>", "<string>", "<string>"),
        (None, None, "[no file]"),
    ],
)
def test_files_are_relative_to_the_program(
    file: str | None, shown: str | None, package: str
) -> None:
    frame = CallFrame(function="f", file=file, line=1)
    others = (
        CallFrame(function="a", file="/home/me/p/x/a.py"),
        CallFrame(function="b", file="/home/me/p/b.py"),
    )
    places = Places((frame, *others))
    assert (places.file(frame), places.package(frame)) == (shown, package)
