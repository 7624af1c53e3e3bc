"""Changes of a program's text before optimizations, as XLA compiles it with the change.

`edits` changes the text: `arguments` donation and element types, `shardings` also constraints and
meshes. `compiling` runs XLA in a process of its own (`worker`), by the jax that is installed or one
of `environments`. Begin with `recompiling`: a module compiled again as it is (`Base`), then with
changes (`Recompiled`); `combinations` has all that are asked for. Nothing of a dump runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hlo_lens.load.programs import Program
    from hlo_lens.questions.what_if.combinations import WhatIf


def what_if(
    program: Program,
    *,
    module: str | None = None,
    target: str = "",
    flags: Mapping[str, object] | None = None,
    donate: str | Sequence[str] = (),
    undonate: str | Sequence[str] = (),
    shard: Mapping[str, object] | None = None,
    dtype: Mapping[str, str] | None = None,
    constraint: str | Sequence[str] = (),
    mesh: str = "",
    versions: str = "",
    output: str | Path | None = None,
    python: str = sys.executable,
    minutes: float = 30.0,
    full: bool = False,
    each: bool = False,
) -> WhatIf:
    """Compile the program of a dump again, with changes, without the hardware.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        module: Regular expression to find in the names of the modules wanted; None for all.
        target: Device and topology: ``"v5p:2x2x2"``, ``"h100_sxm"``, ``"cpu"``.
        flags: Flags of XLA for this compile, name to value.
        donate: Patterns of arguments to donate, as `hlo_lens.testing.assert_donated` takes them.
        undonate: Patterns of arguments that are no longer donated.
        shard: Pattern to a PartitionSpec, or its text: ``{"params['w']": "P(None, 'model')"}``.
        dtype: Pattern to the element type of stored arguments: ``{"opt/**": "bf16"}``.
        constraint: Sharding constraints: ``"drop step.py:31"``, ``"add step.py:31=P('data')"``.
        mesh: Sizes of mesh axes, ``"data=8,model=4"``.
        versions: Versions of jax, and of libtpu, to compile with: ``"jax==0.9.2"``.
        output: Folder for the new dump; None to leave it in the cache.
        python: Interpreter whose jax compiles.
        minutes: Longest time of one compile.
        full: Whether to wait for the end of each compile, and not only until memory and
            collectives are known.
        each: Whether to compile each of several changes alone, too.

    Raises:
        MissingPackageError: If that interpreter has no jax.
        UnknownNameError: If there is no such module or target.
    """
    from pathlib import Path

    from hlo_lens.program.pages import meant_modules
    from hlo_lens.questions.what_if.combinations import what_if_modules
    from hlo_lens.questions.what_if.compiling import Means

    def texts(value: str | Sequence[str]) -> Sequence[str]:
        return tuple(filter(None, (value,))) if isinstance(value, str) else value

    asked = {
        "target": texts(target),
        "donate": texts(donate),
        "undonate": texts(undonate),
        "shard": [  # however the version of jax prints a PartitionSpec
            f"{name}={str(spec).replace('PartitionSpec(', 'P(', 1)}"
            for name, spec in (shard or {}).items()
        ],
        "dtype": [f"{name}={element_type}" for name, element_type in (dtype or {}).items()],
        "constraint": texts(constraint),
        "flag": [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in (flags or {}).items()
        ],
        "with": texts(versions),
        "mesh": texts(mesh),
    }
    modules = meant_modules(program, module)
    path = str(program) if isinstance(program, str | Path) else modules[0].path
    means = Means(python=python, minutes=minutes, is_full=full)
    return what_if_modules(modules, asked, means=means, output=output, path=path, is_each=each)
