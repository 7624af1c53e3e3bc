"""Traces `programs/traced/train.py` and prints the tree of its calls.

    python sample_dumps/trace_calls.py > sample_dumps/logs/traced_dtensor.txt

Each call of a function of the program is one line, `function, file:line` with the line where the
function begins, below the call that made it. Comprehensions and dataclass methods are left out, as
are all calls outside the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

HERE = Path(__file__).resolve().parent
ROOT = HERE / "programs" / "traced"


class Tracer:
    """Draws calls from the profile events of the interpreter.

    Attributes:
        calls: Depth and label of each call, in order.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, str]] = []
        self._open: list[FrameType] = []

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Notes a call, or the end of one."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and code.co_name[0] != "<":
            place = Path(code.co_filename).relative_to(HERE).as_posix()
            label = f"{code.co_name}, {place}:{code.co_firstlineno}"
            self.calls.append((len(self._open), label))
            self._open.append(frame)
        elif event == "return" and self._open and self._open[-1] is frame:
            self._open.pop()

    def lines(self) -> list[str]:
        """Returns the tree with box-drawing branches."""
        is_last = [True] * len(self.calls)
        later: set[int] = set()
        for number in range(len(self.calls) - 1, -1, -1):
            depth = self.calls[number][0]
            is_last[number] = depth not in later
            later = {other for other in later if other < depth} | {depth}
        drawn: list[str] = []
        bars: list[str] = []
        for (depth, label), last in zip(self.calls, is_last, strict=True):
            del bars[depth:]
            drawn.append(f"{''.join(bars)}{'└── ' if last else '├── '}{label}")
            bars.append("    " if last else "│   ")
        return drawn


def main() -> None:
    """Runs the program and prints its calls."""
    sys.path.insert(0, str(HERE))
    from programs.traced import train

    tracer = Tracer()
    sys.setprofile(tracer)
    try:
        train.main()
    finally:
        sys.setprofile(None)
    sys.stdout.buffer.write("".join(f"{line}\n" for line in tracer.lines()).encode())


if __name__ == "__main__":
    main()
