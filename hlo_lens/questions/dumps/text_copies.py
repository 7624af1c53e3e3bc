"""Texts of a dump that have the program of a compiled module once more.

Such is the text of ``compiled.as_text()`` next to the files that XLA wrote of the same compile.
On a TPU it has more backend configs than these files, which are written before code is generated.
Some of these texts print asynchronous operations as ``X-start``, others as async-starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.digest import program_fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump

_OF_CODE = frozenset(
    {
        "bf16_mapped_op_count",
        "collective_algorithm_config",
        "convolution_algorithm_config",
        "indices_config",
        "integer_config",
        "megacore_config",
        "retry_config",
        "used_scoped_memory_configs",
        "window_config",
    }
)
"""Fields of a TPU's backend configs about generated code: algorithms, tiles, retries.

What is computed is in other fields and in attributes, which count: kernels, the window and
dimension numbers of a convolution. Dumps of libtpu have ``integer_config`` in
``after_codegen.txt`` alone, and ``bf16_mapped_op_count`` in no text (jax 0.10 to 0.12).
"""


def text_copies(modules: Sequence[ModuleDump]) -> dict[int, int]:
    """Return the places of texts without a number, each with that of the module it repeats.

    A text repeats a module with a number in its name if both have one name and equal programs.
    """
    texts = [k for k, one in enumerate(modules) if one.number is None and one.hlo is not None]
    names = {modules[k].title for k in texts}
    compiled: dict[tuple[str, str | None], int] = {}
    for place, one in enumerate(modules):
        if texts and one.number is not None and one.title in names:
            compiled.setdefault((one.title, _fingerprint(one)), place)
    found: dict[int, int] = {}
    for place in texts if compiled else ():
        one = modules[place]
        own = _fingerprint(one)
        if own is not None and (one.title, own) in compiled:
            found[place] = compiled[one.title, own]
    return found


def _fingerprint(module: ModuleDump) -> str | None:
    if module.hlo is None:
        return None
    return program_fingerprint(module.hlo, _OF_CODE, with_sugar=True)
