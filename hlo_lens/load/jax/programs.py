"""Programs of JAX as dumps: the text of a compile and the facts that jax has about it.

The text is ``Compiled.as_text()``: the instructions of the compiled module, with stack frames
numbered otherwise than in a dump.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hlo_lens.load.jax.facts import compiled_shardings, facts_of, lowered_shardings
from hlo_lens.load.jax.texts import (
    CompiledProgram,
    compiled_module,
    lowered_module,
    lowered_text,
    memory_of,
    module_before,
    read_buffers,
)
from hlo_lens.load.lazy_texts import later_buffers
from hlo_lens.load.module import Lazy, ModuleDump, already_read
from hlo_lens.text.dump_files import AFTER, BEFORE
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import UsageError


def from_compiled(compiled: Any, *, lowered: Any = None) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...).compile()`` as a dump of one module.

    All passes and reports accept it. Arguments and mesh axes have the names that the program uses.

    Args:
        compiled: A ``jax.stages.Compiled``.
        lowered: The ``jax.stages.Lowered`` that it was compiled from: its text from before
            optimizations then belongs to the dump.

    Raises:
        UsageError: If the argument has another type.
        MissingDumpError: If the backend does not give the text of its programs.
    """
    if hasattr(compiled, "compile") and hasattr(compiled, "compiler_ir"):
        raise UsageError(
            "this program is lowered, not compiled: add .compile(), or call from_lowered"
        )
    if not hasattr(compiled, "as_text") or not hasattr(compiled, "memory_analysis"):
        raise UsageError(
            f"expected a compiled program, found {_kind(compiled)}; "
            "write hlo_lens.from_compiled(jax.jit(f).lower(*args).compile())"
        )
    before = None if lowered is None else partial(lowered_text, lowered)
    executable = getattr(compiled, "_executable", compiled)
    return dump_of(CompiledProgram(executable=executable, stage=compiled, before=before))


def from_lowered(lowered: Any) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...)``, before optimizations, as a dump.

    Nothing is compiled: shapes are global, and memory and most collectives are not known yet.

    Raises:
        UsageError: If the argument has another type.
        MissingDumpError: If jax cannot give its HLO text.
    """
    if not hasattr(lowered, "compile") or not hasattr(lowered, "compiler_ir"):
        raise UsageError(
            f"expected a lowered program, found {_kind(lowered)}; "
            "write hlo_lens.from_lowered(jax.jit(f).lower(*args))"
        )
    module = lowered_module(lowered)
    lowering = getattr(lowered, "_lowering", None)
    program = CompiledProgram(executable=lowering, stage=lowered, before=None)
    facts = facts_of(program, module, *lowered_shardings(lowering))
    module.framework = facts
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=BEFORE,
        module_text=already_read(module),
        framework=facts,
    )


def dump_of_compile(lowering: Any, executable: Any) -> ModuleDump:
    """Return the program of one compile inside jax as a dump of one module.

    Args:
        lowering: The object that was compiled: a ``MeshComputation`` or a ``jax.stages.Lowered``.
        executable: The object that it was compiled to.

    Raises:
        MissingDumpError: If the backend does not give the text of its programs.
    """
    is_stage = not hasattr(executable, "xla_executable") and hasattr(executable, "args_info")
    donated = getattr(lowering, "_donated_invars", None)
    return dump_of(
        CompiledProgram(
            executable=getattr(executable, "_executable", executable) if is_stage else executable,
            stage=executable if is_stage else None,
            before=partial(lowered_text, lowering),
            donated=tuple(donated) if isinstance(donated, (tuple, list)) else None,
        )
    )


def dump_of(program: CompiledProgram) -> ModuleDump:
    """Return a compiled program as a dump of one module."""
    module, others = compiled_module(program)
    facts = facts_of(program, module, *compiled_shardings(program))
    notes = list(facts.notes)
    if others:
        notes.append(f"the executable has {others} more modules, which are not read")
    facts = replace(facts, memory=memory_of(program.source), notes=tuple(notes))
    module.framework = facts
    prefix = {"cpu": "cpu_", "gpu": "gpu_"}.get(facts.backend or "", "")
    before = None if program.before is None else Lazy(partial(module_before, program.before, facts))
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=f"{prefix}{AFTER}",
        module_text=already_read(module),
        before_text=before,
        buffers=later_buffers(partial(read_buffers, program)),
        parts={"buffer-assignment": "the executable's buffer assignment"},
        framework=facts,
    )


def _kind(found: object) -> str:
    return f"{type(found).__module__}.{type(found).__name__}"
