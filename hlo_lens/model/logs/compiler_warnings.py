"""What XLA and JAX warn about while they compile.

Sources: see ``grammars/compiler_warnings.lark``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.hlo.metadata import OpMetadata
    from hlo_lens.model.shapes.shape import Shape
    from hlo_lens.model.shapes.sharding import HloSharding


class WarningKind(enum.Enum):
    """Kinds of warnings."""

    FULL_REMATERIALIZATION = "full rematerialization"
    UNUSED_DONATION = "unused donation"
    SLOW_COMPILE = "slow compile"
    CONSTANT_FOLDING = "constant folding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedInstruction:
    """An instruction as a warning prints it, which may be cut off.

    Attributes:
        text: As printed.
        name: Its name, without ``%``; the dumps may have other names.
        opcode: What it does.
        shape: Shape of its result; None where it is no array, or cannot be read.
        metadata: Where it comes from; None where it is not printed whole.
    """

    text: str
    name: str
    opcode: str
    shape: Shape | None = None
    metadata: OpMetadata | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerWarning:
    """One warning.

    Attributes:
        kind: Of what.
        instruction: Which instruction; None for warnings of whole programs.
        from_sharding: Sharding that the value has, for full rematerialization.
        to_sharding: Sharding that it is to have.
        donated: Types of the arguments whose donation is of no use, as printed.
        donated_shapes: Their shapes; None for a type that cannot be read.
        module: Name of the module that compiles slowly; None where it is not told.
        platform: For which platform, as printed; empty where it is not told.
        duration_seconds: How long it took; of an alarm without an end, after how long it rang.
        is_finished: Whether the duration is that of the whole operation.
        reason: Why, in the words of the text, where it says more.
        line: 1-based line of the file.
        lines: How many lines it takes.
    """

    kind: WarningKind
    instruction: PrintedInstruction | None = None
    from_sharding: HloSharding | None = None
    to_sharding: HloSharding | None = None
    donated: tuple[str, ...] = ()
    donated_shapes: tuple[Shape | None, ...] = ()
    module: str | None = None
    platform: str = ""
    duration_seconds: float | None = None
    is_finished: bool = False
    reason: str = ""
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
