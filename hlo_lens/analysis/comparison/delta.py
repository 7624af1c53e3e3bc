"""A number before and after."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A number before and after; None if it is not known.

    Attributes:
        base: Before.
        head: After.
        is_comparable: Whether the two mean the same.
    """

    base: int | None
    head: int | None
    is_comparable: bool = True

    @property
    def delta(self) -> int | None:
        """Head minus base; None if either is not known, or they do not mean the same."""
        if self.base is None or self.head is None or not self.is_comparable:
            return None
        return self.head - self.base

    @property
    def is_changed(self) -> bool:
        """Whether the numbers differ."""
        return self.base != self.head

    def to_dict(self) -> dict[str, int | None]:
        """Return the JSON object."""
        return {"base": self.base, "head": self.head, "delta": self.delta}
