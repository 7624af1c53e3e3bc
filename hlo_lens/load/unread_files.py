"""Counts of the skipped files of a folder or archive, by kind."""

from __future__ import annotations

from hlo_lens.model.dump import LeftAside


class LeftAsides:
    """Counter of skipped files."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    def add(self, kind: str, path: str) -> None:
        """Count one file."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._examples.setdefault(kind, path)

    def add_all(self, others: LeftAsides) -> None:
        """Add the counts of another counter."""
        for kind, count in others._counts.items():
            self._counts[kind] = self._counts.get(kind, 0) + count
            self._examples.setdefault(kind, others._examples[kind])

    def all(self) -> tuple[LeftAside, ...]:
        """Return the kinds, the largest number first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(LeftAside(kind, count, self._examples[kind]) for kind, count in ordered)
