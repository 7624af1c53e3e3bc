"""Regular expressions that users give, searched in names for a bounded time."""

from __future__ import annotations

from hlo_lens.text.errors import UsageError

_SECONDS = 1.0
"""Most seconds that a search in one name may take; usual ones take microseconds."""


class NamePattern:
    """A regular expression of the user, to find in names of modules, functions or files.

    A pattern whose search grows exponentially with the name (``(a+)+$``) ends in an error.

    Attributes:
        text: The pattern as given.
    """

    def __init__(self, text: str) -> None:
        """Read a pattern; raises UsageError if it is no regular expression."""
        import regex

        self.text = text
        try:
            self._pattern = regex.compile(text)
        except regex.error as error:
            raise UsageError(f"not a regular expression: {text!r}: {error}") from error

    def found_in(self, name: str) -> bool:
        """Whether the pattern is found in a name; raises UsageError after one second."""
        try:
            return self._pattern.search(name, timeout=_SECONDS) is not None
        except TimeoutError as error:
            shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
            raise UsageError(
                f"the search of {self.text!r} in {shown!r} takes more than {_SECONDS:g} s;"
                " write it without a repetition inside a repetition"
            ) from error


_SHOWN = 60
"""Most characters of a name in a message."""
