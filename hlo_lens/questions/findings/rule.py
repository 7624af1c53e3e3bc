"""A rule: its code, its function, and its description, which is the docstring of the function."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from hlo_lens.load.module import ModuleDump
from hlo_lens.questions.dumps.listing import ListingFacts
from hlo_lens.questions.findings import rules as package
from hlo_lens.questions.findings.finding import Finding
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean

FindInModule: TypeAlias = Callable[[ModuleDump], Iterable[Finding]]
"""Yields the findings in one module, which has HLO text."""

FindInDump: TypeAlias = Callable[[Sequence[ListingFacts]], Iterable[tuple[int, Finding]]]
"""Yields findings in several modules, each with the position of the module to blame.

They have a severity, and save nothing that is a share of the program.
"""

MEMORY, PEAK = "memory", "peak"
"""What a rule may need: the memory of the program, and the values at its peak."""

NO_TEXT_BEFORE = "the text from before optimizations is missing"
"""Reason of a `MissingDumpError` by which rules that need that text are undecided."""

PARTS = ("What", "Why it costs", "Fix", "Fine when")
"""Headings of the description of a rule, in this order."""

_HEADING = re.compile(rf"^({'|'.join(PARTS)}): ", re.MULTILINE)


class RuleText(NamedTuple):
    """Description of a rule.

    Attributes:
        title: What it finds, in one line.
        parts: Heading to text, in the order of `PARTS`.
    """

    title: str
    parts: dict[str, str]

    @classmethod
    def of(cls, docstring: str) -> RuleText:
        head, *rest = _HEADING.split(inspect.cleandoc(docstring))
        texts = (" ".join(text.split()) for text in rest[1::2])
        return cls(head.strip().removesuffix("."), dict(zip(rest[::2], texts, strict=True)))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Code and function of a rule, whose name is that of the function."""

    code: str
    find: Callable[..., object]

    @property
    def name(self) -> str:
        return self.find.__name__.replace("_", "-")

    @property
    def text(self) -> RuleText:
        return RuleText.of(self.find.__doc__ or "")


@dataclass(frozen=True, slots=True)
class ModuleRule(_Rule):
    """A rule about one module.

    Attributes:
        find: Yields its findings.
        needs: `MEMORY` or `PEAK`, without which the rule is undecided; empty for neither.
        is_root: Whether findings of other rules on its mesh axes are symptoms of its findings.
    """

    find: FindInModule
    needs: str = ""
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class DumpRule(_Rule):
    """A rule about the modules of a dump together."""

    find: FindInDump


Rule: TypeAlias = ModuleRule | DumpRule

_RULES: list[Rule] = []


def module_rule(
    code: str, *, needs: str = "", is_root: bool = False
) -> Callable[[FindInModule], FindInModule]:
    """Register a function as the rule of a code about one module."""

    def register(find: FindInModule) -> FindInModule:
        _RULES.append(ModuleRule(code, find, needs, is_root))
        return find

    return register


def dump_rule(code: str) -> Callable[[FindInDump], FindInDump]:
    """Register a function as the rule of a code about the modules of a dump together."""

    def register(find: FindInDump) -> FindInDump:
        _RULES.append(DumpRule(code, find))
        return find

    return register


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, by code."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted(_RULES, key=lambda rule: rule.code))


@functools.cache
def root_codes() -> frozenset[str]:
    """Return the codes of rules that find root causes."""
    rules = (one for one in all_rules() if isinstance(one, ModuleRule))
    return frozenset(rule.code for rule in rules if rule.is_root)


def find_rule(word: str) -> Rule:
    """Return the rule of a code or name.

    Raises:
        UnknownNameError: If there is none, with the nearest ones.
    """
    for rule in all_rules():
        if word.lower() in (rule.code.lower(), rule.name):
            return rule
    names = [*(rule.code for rule in all_rules()), *(rule.name for rule in all_rules())]
    hint = did_you_mean(word.upper(), names) or did_you_mean(word.lower(), names)
    raise UnknownNameError(f"no rule {word!r}{hint or '; hlo-lens explain lists the rules'}")
