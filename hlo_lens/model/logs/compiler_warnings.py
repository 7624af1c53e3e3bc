"""Compile-time warnings of XLA and JAX.

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
    """An instruction as printed in a warning, possibly cut off.

    Attributes:
        text: As printed.
        name: Its name, without ``%``; dumps may have another name.
        opcode: Its opcode.
        shape: Shape of its result; None if it is no array, or cannot be read.
        metadata: Its metadata; None if it is cut off.
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
        kind: Kind of warning.
        instruction: Its instruction; None for warnings on whole programs.
        from_sharding: Present sharding of the value, for full rematerialization.
        to_sharding: Required sharding of the value.
        donated: Types of the arguments with unusable donations, as printed.
        donated_shapes: Their shapes; None for a type that cannot be read.
        module: Name of the module that compiles slowly; None if it is not printed.
        platform: Its platform, as printed; empty if it is not.
        duration_seconds: Duration of the operation, or the time limit after which XLA warned.
        is_finished: Whether the duration is that of the whole operation.
        reason: Reason as printed; empty if it is not.
        line: 1-based line of the file.
        lines: Number of its lines.
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
