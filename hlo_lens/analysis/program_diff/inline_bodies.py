"""Computations printed inside the calling instruction and once more as computations.

XLA's canonical and fingerprint styles do so (hlo_computation.cc, Print, in nested computations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.fingerprints import KnownBodies, fingerprints

if TYPE_CHECKING:
    from hlo_lens.analysis.program_diff.graph import ProgramGraph


def share_bodies(graph: ProgramGraph) -> None:
    """Let instructions call the separate computations instead of their inline copies.

    Each copy is replaced by another of the computations equal to it, as long as there are any; a
    body that is only printed inline stays.
    """
    computations = graph.module.computations
    if not any(computation.is_inline for computation in computations):
        return
    content = fingerprints(graph, {}, KnownBodies()).content
    own: dict[int, list[int]] = {}
    for position in range(len(computations) - 1, -1, -1):
        if not computations[position].is_inline and position != graph.entry:
            own.setdefault(content[position], []).append(position)
    seen = {graph.entry}
    waiting = [graph.entry]
    while waiting:
        for node in graph.nodes[waiting.pop()]:
            called = graph.callees.get(node)
            if called is None:
                continue
            shared = tuple((role, _own(own, content[c], c)) for role, c in called)
            graph.callees[node] = shared
            for _, computation in shared:
                if computation not in seen:
                    seen.add(computation)
                    waiting.append(computation)


def _own(own: dict[int, list[int]], content: int, computation: int) -> int:
    """Return the next computation of some content, then always the last one."""
    left = own.get(content)
    if not left:
        return computation
    return left.pop() if len(left) > 1 else left[0]
