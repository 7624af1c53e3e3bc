"""Own scripts of the page as one."""

from __future__ import annotations

import pytest

from hlo_lens.questions.report.html.document import bundled

A = 'import { two as second } from "./lib/b.js";\n\nexport const one = second();\n'
B = "export function two() {\n  return 2;\n}\n"


def test_imported_modules_come_first() -> None:
    made = bundled({"a.js": A, "lib/b.js": B}, "a.js")
    assert made.index("// lib/b.js") < made.index("// a.js")


def test_imports_and_exports_become_entries_of_a_table() -> None:
    made = bundled({"a.js": A, "lib/b.js": B}, "a.js")
    assert 'const { two: second } = modules["lib/b.js"];' in made
    assert 'modules["lib/b.js"] = { two };' in made
    assert "\nfunction two() {" in made
    assert "import {" not in made
    assert "export " not in made


def test_a_module_is_joined_once() -> None:
    made = bundled({"a.js": A, "c.js": A, "lib/b.js": B}, "a.js", added=("c.js",))
    assert made.count("// lib/b.js") == 1


def test_modules_that_nothing_imports_can_be_added() -> None:
    assert "// lib/b.js" in bundled({"a.js": "", "lib/b.js": B}, "a.js", added=("lib/b.js",))


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"a.js": 'import { x } from "./a.js";\n'}, "modules import each other: a.js > a.js"),
        ({"a.js": 'import { x } from "./b.js";\n'}, "a.js imports b.js, which is no module"),
        ({"a.js": 'import x from "./b.js";\n'}, "a.js: not a form that is joined: import x from"),
        ({"a.js": "export default 1;\n"}, "a.js: not a form that is joined: export default"),
    ],
)
def test_other_forms_are_refused(modules: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundled(modules, "a.js")
