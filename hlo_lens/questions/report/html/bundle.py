"""Own scripts of the page joined to one: ES modules, each in a function of its own.

A module may use these forms only, each at the start of a line; others are refused:
``import { a, b as c } from "./file.js";`` and ``export function``, ``export class``,
``export const``. Modules come after those that they import; circles are refused.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) ([A-Za-z_$][\w$]*))", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundled(modules: Mapping[str, str], start: str, *, added: tuple[str, ...] = ()) -> str:
    """Return modules as one script without imports.

    Args:
        modules: Name, such as ``views/memory.js``, to text.
        start: Module that runs last.
        added: Modules that run before it although none imports them.

    Raises:
        ValueError: If a module has another form of import or export, imports one that is not
            there, or itself through others.
    """
    names = [name for first in (*added, start) for name in _ordered(modules, first, ())]
    parts = [_wrapped(name, modules[name]) for name in dict.fromkeys(names)]
    return "".join(('"use strict";\nconst modules = {};\n', *parts))


def _ordered(modules: Mapping[str, str], name: str, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules that one imports, then itself."""
    if name in above:
        raise ValueError(f"modules import each other: {' > '.join((*above, name))}")
    if name not in modules:
        raise ValueError(f"{above[-1] if above else 'the page'} imports {name}, which is no module")
    for match in _IMPORT.finditer(modules[name]):
        yield from _ordered(modules, _resolved(name, match[2]), (*above, name))
    yield name


def _resolved(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _wrapped(name: str, text: str) -> str:
    """Return a module as a function that is called at once and stores its exports."""
    exports = ", ".join(match[1] for match in _EXPORT.finditer(text))

    def taken(match: re.Match[str]) -> str:
        names = match[1].strip().rstrip(",").replace(" as ", ": ")
        return f'const {{ {names} }} = modules["{_resolved(name, match[2])}"];'

    body = _EXPORT.sub("", _IMPORT.sub(taken, text))
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"{name}: not a form that is joined: {other[0]}")
    return f'(() => {{ // {name}\n{body}modules["{name}"] = {{ {exports} }};\n}})();\n'
