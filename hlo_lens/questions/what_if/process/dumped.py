"""New dump of a compile: its module, its compiler and flags next to those of the old dump."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import load
from hlo_lens.render.result import sum_of
from hlo_lens.text.dump_files import AFTER
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.load.devices import Target
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.what_if.process.process import Compilation
    from hlo_lens.questions.what_if.process.program import SourceProgram

_CHANGE_LIST = re.compile(r"\.cl_(\d+)\b")
_PACKAGES = {
    "cpu": ("jax", "jaxlib"),
    "tpu": ("jax", "jaxlib", "libtpu"),
    "gpu": ("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "nvidia-cuda-nvcc-cu12"),
}
_FAILED = {
    "import": "jax cannot be imported",
    "parse": "XLA cannot read the program's text",
    "target": "no devices of this target",
    "options": "an option was refused",
    "compile": "XLA refused the program",
    "stopped": "XLA's compiler stopped",
}
_MISSING_PACKAGES = {
    "JAX TPU support not installed": "libtpu is not installed with the jax that compiles: "
    "pip install 'jax[tpu]', or name a Python that has it with --python",
    "topology not implemented for cuda": "the CUDA plugin is not installed with the jax that "
    "compiles: pip install 'jax[cuda12]', or name a Python that has it with --python",
}
"""Part of an error of JAX to what is missing and how to get it."""

_FIRST_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A program compiled again.

    Attributes:
        compilation: The compile.
        module: The module in the new dump, at its latest stage; None if there is none.
    """

    compilation: Compilation
    module: ModuleDump | None

    @property
    def refusal(self) -> str:
        """Why there are no figures; empty if there are."""
        made = self.compilation
        if made.is_done:
            return "" if self.module is not None else "the new dump has no optimized text"
        for part, text in _MISSING_PACKAGES.items():
            if made.step == "target" and part in made.error:
                return text
        lines = [line.strip() for line in made.error.splitlines() if line.strip()]
        return f"{_FAILED.get(made.step, made.step)}: {' '.join(lines[:_FIRST_LINES])}"

    def versions(self, target: Target | None) -> Mapping[str, str]:
        """Return the versions of the packages that compile for a target."""
        names = _PACKAGES["cpu" if target is None else target.backend]
        known = self.compilation.versions
        return {name: known[name] for name in names if name in known}

    def is_same_compiler(self, dump: ModuleDump) -> bool:
        """Whether nothing shows that another compiler made a dump."""
        ours = None if self.module is None else change_list(self.module)
        theirs = change_list(dump)
        return ours is None or theirs is None or ours == theirs

    def notes(self, program: SourceProgram | None) -> Iterator[str]:
        """Yield the limits of the answer."""
        dropped = self.compilation.dropped_attributes
        if dropped:
            names = ", ".join(dropped)
            yield f"attributes that this parser of XLA does not know were left out: {names}"
        if program is not None and program.has_elided_constants:
            yield (
                "the text leaves out the values of large constants; XLA compiled others in their "
                "place (--xla_dump_hlo_as_proto keeps them)"
            )


def new_module(made: Compilation, name: str) -> ModuleDump | None:
    """Return the optimized module of a name in a new dump; None if there is none."""
    if not made.is_done:
        return None
    try:
        found = load(made.dump).modules
    except HloLensError:
        return None
    own = [one for one in found if (one.stage or "").endswith(AFTER)]
    named = [one for one in own if one.title == name]
    return next(reversed(named or own), None)


def change_list(dump: ModuleDump) -> str | None:
    """Return the change list of libtpu in the names of a dump's files; None for others."""
    names = (Path(file).name for file in dump.files)
    return next((match[1] for name in names if (match := _CHANGE_LIST.search(name))), None)


_OPTION = re.compile(r"(?m)^\s*(xla_\w+|\w*tpu_\w+): (\S.*)$")
_UNIMPORTANT = re.compile(r"xla_dump_|xla_force_host|xla_gpu_cuda_data_dir|.*(?:cache|_dir|path)")
OPTION_TEXTS = ("debug_options", "tpu_comp_env.txt")
"""Texts of a dump that print options of XLA."""


def dumped_flags(dump: ModuleDump, again: ModuleDump) -> dict[str, str]:
    """Return the flags of a dump that its program, compiled again, was compiled without.

    Options that are printed more than once, files and places are left out.
    """
    found: dict[str, str] = {}
    for name in OPTION_TEXTS:
        theirs, ours = dump.setting(name), again.setting(name)
        if theirs is None or ours is None:
            continue
        known = options_of(ours)
        found |= {key: v for key, v in options_of(theirs).items() if known.get(key) != v}
    return found


def options_of(text: str) -> dict[str, str]:
    """Return the options that a text prints once, without files and places."""
    pairs = [(key, value.strip().strip('"')) for key, value in _OPTION.findall(text)]
    names = [key for key, _ in pairs]
    once = {name for name in names if names.count(name) == 1}
    return {k: v for k, v in pairs if k in once and not _UNIMPORTANT.match(k)}


def reasons(dump: ModuleDump, again: Again, program: SourceProgram | None) -> tuple[str, ...]:
    """Return what is known to differ between a dump and its program compiled again."""
    found = []
    theirs = change_list(dump)
    ours = None if again.module is None else change_list(again.module)
    if theirs is not None and ours is not None and theirs != ours:
        found.append(f"libtpu cl {theirs} in the dump, cl {ours} here")
    elif theirs is None:
        found.append("the dump does not name its version of XLA")
    if dump.setting("debug_options") is None:
        found.append("the dump does not hold its options (debug_options)")
    if program is not None and program.has_elided_constants:
        found.append("large constants are left out of the text")
    dropped = again.compilation.dropped_attributes
    if dropped:
        found.append(f"{plural(len(dropped), 'attribute')} of the text not known to this XLA")
    return tuple(found)


def shortage(made: Compilation) -> tuple[tuple[str, str], ...]:
    """Return the figures of XLA's message that a program does not fit; none for others."""
    if made.step != "compile":
        return ()
    from hlo_lens.logs.logs_log import parse_log

    log = parse_log(made.error, may_be_empty=True, path="XLA's message")
    if not log.compile_ooms:
        return ()
    one = log.compile_ooms[0]
    used = " and ".join(str(size) for size in one.used)
    facts = [(f"{one.memory_space} {one.used_for or 'used'}", used)] if used else []
    if one.capacity is not None:
        facts.append(("available", str(one.capacity)))
    if one.exceeded is not None:
        facts.append(("too much", str(one.exceeded)))
    facts += [(part.name, str(part.size)) for part in one.usage if part.size is not None]
    facts += [(part.name, str(part.size)) for part in one.parts if part.size is not None]
    return tuple(facts) or (("memory", one.memory_space),)


def needed_bytes(made: Compilation) -> int | None:
    """Return the bytes that XLA's message says a program needs, at most; None for others."""
    if made.step != "compile":
        return None
    from hlo_lens.logs.logs_log import parse_log

    log = parse_log(made.error, may_be_empty=True, path="XLA's message")
    used = [size.at_most for one in log.compile_ooms[:1] for size in one.used]
    return sum_of(used) if used else None
