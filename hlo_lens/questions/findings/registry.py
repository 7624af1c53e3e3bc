"""All rules: the files of the package ``rules``, each with a `RULE`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from hlo_lens.questions.findings import rules as package
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean

if TYPE_CHECKING:
    from hlo_lens.questions.findings.rule import Rule


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, by code."""
    names = (one.name for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))
    found: list[Rule] = [importlib.import_module(name).RULE for name in names]
    return tuple(sorted(found, key=lambda rule: rule.code))


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
