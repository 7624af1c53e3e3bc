"""Source paths that are the same on every machine."""

from __future__ import annotations

import pytest

from hlo_lens.text.names import portable_path


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/home/me/project/train.py", "project/train.py"),
        ("/v/lib/python3.11/site-packages/flax/linen/linear.py", "flax/linen/linear.py"),
        ("C:\\work\\project\\train.py", "project/train.py"),
        ("src/a/b/train.py", "src/a/b/train.py"),
        ("<stdin>", "<stdin>"),
    ],
)
def test_source_files_are_named_alike_on_every_machine(path: str, short: str) -> None:
    assert portable_path(path) == short
