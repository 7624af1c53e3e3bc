"""Arguments of the API: the types a program may have, and the modules in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from hlo_lens.hlo.module import HloModule
from hlo_lens.load import load, load_log
from hlo_lens.load.module import Dump, ModuleDump, already_read
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.names import NamePattern, did_you_mean
from hlo_lens.text.units import listed


class Compiled(Protocol):
    """A compiled program of jax: what ``jax.jit(f).lower(...).compile()`` returns."""

    def as_text(self) -> str | None:
        """Return the optimized HLO text."""

    def memory_analysis(self) -> object:
        """Return the byte figures of the executable."""


Program: TypeAlias = str | Path | Dump | ModuleDump | HloModule | Compiled
"""A path, HLO text (more than one line), a dump or module read from either, a jax executable."""

Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number done and the number in all."""

T = TypeVar("T")

_NAMES_SHOWN = 8


def modules_of(program: Program, *, module: str | None = None) -> tuple[ModuleDump, ...]:
    """Return the modules of a program.

    Args:
        program: A path, HLO text, a module or dump read from either, or an executable of jax.
        module: Regular expression to find in the names of the modules wanted; None for all.

    Raises:
        UnknownNameError: If no module has such a name.
        UsageError: If `program` is none of these, or `module` is no regular expression.
    """
    modules = _read(program)
    if module is None:
        return tuple(modules)
    return select_modules(modules, NamePattern(module))


def read_dump(path: str, *, progress: Progress | None = None) -> Dump:
    """Return the dump in a file, a folder or an archive; ``-`` is standard input."""
    return load(path, progress=progress)


def read_log(path: str) -> ModuleDump:
    """Return the log in a file."""
    return load_log(path)


def select_modules(
    modules: Sequence[ModuleDump], pattern: NamePattern | None
) -> tuple[ModuleDump, ...]:
    """Return the modules in whose name or title a pattern is found, all for None.

    A pattern that is the whole address of a module selects that one alone.

    Raises:
        UnknownNameError: If there are none.
    """
    if pattern is None:
        return tuple(modules)
    chosen = tuple(one for one in modules if one.address == pattern.text) or tuple(
        one for one in modules if pattern.found_in(one.name) or pattern.found_in(one.title)
    )
    if not chosen:
        raise no_module_matches(pattern, [one.address for one in modules])
    return chosen


def no_module_matches(pattern: NamePattern, names: Sequence[str]) -> UnknownNameError:
    """Return the error for a pattern that is found in none of some names."""
    return UnknownNameError(
        f"no module matches {pattern.text!r}; there is {listed(names, _NAMES_SHOWN)}"
        f"{did_you_mean(pattern.text, names) if len(names) > _NAMES_SHOWN else ''}"
    )


def with_progress(modules: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """Yield modules; report the number done before each, if there are several."""
    for done, module in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        yield module


def _read(program: Program) -> Sequence[ModuleDump]:
    if isinstance(program, ModuleDump):
        return (program,)
    if isinstance(program, Dump):
        return program.modules
    if isinstance(program, HloModule):
        return (_dump_of(program),)
    if isinstance(program, str) and "\n" in program:
        from hlo_lens.hlo.module_reader import parse_hlo

        return (_dump_of(parse_hlo(program)),)
    if isinstance(program, str | Path):
        return load(program).modules
    if hasattr(program, "as_text") and hasattr(program, "memory_analysis"):
        from hlo_lens.load.jax import from_compiled

        return (from_compiled(program),)
    raise _no_program(program)


def _no_program(program: object) -> UsageError:
    hint = ""
    if hasattr(program, "lower"):
        hint = "; compile it: jax.jit(f).lower(*args).compile()"
    elif hasattr(program, "compile"):
        hint = "; add .compile(), or use hlo_lens.from_lowered for the program as it was lowered"
    return UsageError(
        "expected a path, HLO text, a module, a dump or a compiled program of jax, "
        f"found {type(program).__name__}{hint}"
    )


def _dump_of(module: HloModule) -> ModuleDump:
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        module_text=already_read(module),
        framework=module.framework,
    )
