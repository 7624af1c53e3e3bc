"""Files of a folder or archive that are left aside, counted by what they are."""

from __future__ import annotations

from hlo_lens.model.dump import LeftAside

UNREADABLE = "file that cannot be read"
CUT_OUT = "part of a module that XLA cut out"
UNPACKED = "archive of a folder that lies beside it"
REFUSED = "archive that is damaged or refused"
REPEATED = "second text of the same module and stage"


class LeftAsides:
    """Counts the files that are left aside."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    def add(self, kind: str, path: str) -> None:
        """Count one file."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._examples.setdefault(kind, path)

    def add_all(self, others: LeftAsides) -> None:
        """Count what another has counted."""
        for kind, count in others._counts.items():
            self._counts[kind] = self._counts.get(kind, 0) + count
            self._examples.setdefault(kind, others._examples[kind])

    def all(self) -> tuple[LeftAside, ...]:
        """Return the kinds, the largest number first."""
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(LeftAside(kind, count, self._examples[kind]) for kind, count in ordered)
