"""Source files of libraries, as opposed to those of the user's program, by their paths.

A library is an installed package, the standard library, code without a file (``<string>``), or a
known package of the jax ecosystem in a source checkout. Packages of models, such as MaxText, are
the user's program unless they are installed.
"""

from __future__ import annotations

import functools

from hlo_lens.text.lazy_pattern import lazy_pattern

INSTALLED = lazy_pattern(r".*/(?:site|dist)-packages/")
"""Path of an installed package up to the package."""

STANDARD = lazy_pattern(r".*?/lib(?:64)?/python\d[\d.]*(?:\.zip)?/|.*?/Python\d+/Lib/|^<frozen ")
"""Path of the standard library up to the module."""

SYNTHETIC = lazy_pattern(r"^<[^>]*>$")
"""Name that Python gives to code without a file."""

_PACKAGES = (
    "chex|distrax|dm_haiku|diffrax|einops|equinox|flax|haiku|jax|jaxlib|jaxopt|lineax|numpy|optax|"
    "optimistix|orbax|qwix|scipy|tokamax|torch|torch_xla"
)
_CHECKOUT = lazy_pattern(
    rf"(?:.*/)?(?P<name>{_PACKAGES})/(?P=name)/"
    rf"|(?:.*/)?third_party/py/(?:{_PACKAGES})/"
    r"|(?:.*/)?jax/(?:_src|experimental|interpreters)/"
    r"|(?:.*/)?flax/(?:core|linen|nnx|training)/"
    r"|(?:.*/)?(?:tensorflow/python|keras/src)/"
    r"|(?:.*/)?optax/(?:_src|contrib|losses|transforms|tree_utils)/"
)
"""Path of a known package in its repository, or relative to the folder of packages."""

_EVERY_OPERATION = lazy_pattern(r"(?:.*/)?tensorflow/python/framework/ops\.py$")
"""File of TensorFlow that makes all operations: the innermost frame of each is in it."""


@functools.lru_cache(maxsize=4096)
def makes_every_operation(path: str) -> bool:
    """Return whether a framework makes all operations in a file, so that its lines say nothing.

    >>> makes_every_operation("/env/site-packages/tensorflow/python/framework/ops.py")
    True
    """
    return _EVERY_OPERATION.match(path.replace("\\", "/")) is not None


@functools.lru_cache(maxsize=4096)
def is_library_file(path: str) -> bool:
    """Return whether a source file belongs to a library.

    >>> is_library_file("/env/lib/python3.11/site-packages/flax/linen/linear.py")
    True
    >>> is_library_file("/home/me/jax/train.py"), is_library_file("/src/MaxText/layers/models.py")
    (False, False)
    """
    path = path.replace("\\", "/")
    return any(known.match(path) for known in (INSTALLED, STANDARD, SYNTHETIC, _CHECKOUT))
