"""Source files of libraries and of the user's program."""

from __future__ import annotations

import pytest

from hlo_lens.text.source_files import is_library_file


@pytest.mark.parametrize(
    "path",
    [
        "/env/lib/python3.11/site-packages/flax/core/axes_scan.py",
        "/usr/lib/python3/dist-packages/jax/_src/lax/lax.py",
        "/usr/lib/python3.12/functools.py",
        "/usr/lib/python312.zip/functools.py",
        "C:\\Python311\\Lib\\runpy.py",
        "C:\\env\\Lib\\site-packages\\optax\\_src\\base.py",
        "<frozen runpy>",
        "<string>",
        "/src/jax/jax/_src/lax/control_flow/loops.py",
        "/src/optax/optax/losses/_classification.py",
        "third_party/py/flax/linen/module.py",
        "/build/third_party/py/flax/linen/module.py",
        "flax/linen/linear.py",
    ],
)
def test_installed_files_and_known_packages_are_libraries(path: str) -> None:
    assert is_library_file(path)


@pytest.mark.parametrize(
    "path",
    [
        "train.py",
        "/home/me/jax/train.py",
        "/home/me/flax/examples/lm1b/train.py",
        "/src/maxtext/MaxText/layers/models.py",
        "/deps/src/MaxText/train.py",
        "C:\\Users\\me\\train.py",
    ],
)
def test_all_others_are_of_the_user(path: str) -> None:
    assert not is_library_file(path)
