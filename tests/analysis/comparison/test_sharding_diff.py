"""Changed shardings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.annotation_diff import ONE_SIDE, OTHER_SYSTEM
from hlo_lens.analysis.comparison.sharding_diff import sharding_diff
from hlo_lens.model.snapshot.rows import AnnotationFact
from tests.snapshots import entry, module

if TYPE_CHECKING:
    from hlo_lens.model.snapshot.rows import EntryFact


ANNOTATION = AnnotationFact(
    annotation="Sharding",
    shape="f32[8]",
    sharding="{devices=[2]<=[2]}",
    spec=None,
    manual_axes=None,
    source=None,
    op_name="jit(f)/constraint",
)


def _rows(base: list[EntryFact], head: list[EntryFact]) -> list[tuple[object, ...]]:
    found = sharding_diff(module(entries=tuple(base)), module(entries=tuple(head)))
    assert found is not None
    return [tuple(row[:3]) for row in found.rows()]


def test_a_spelling_is_no_change() -> None:
    assert _rows([entry()], [entry(sharding="{devices=[2,1]0,1}")]) == []
    assert _rows([entry()], [entry(sharding="{mesh['x'=2], [{'x'}, {}]}")]) == []


def test_other_tiles_are_a_change() -> None:
    head = entry(sharding="{devices=[1,2]<=[2]}", device_shape="f32[8,8]")
    assert _rows([entry()], [head]) == [("resharded", "parameter", "params['w']")]


def test_parameters_are_matched_by_name_before_number() -> None:
    other = entry(name="x", number=1, sharding="{replicated}", device_shape="f32[8,16]")
    base = [entry(), other]
    head = [entry(number=1), entry(**{**_fields(other), "number": 0})]
    assert _rows(base, head) == []


def _fields(fact: EntryFact) -> dict[str, object]:
    return {name: getattr(fact, name) for name in fact.__dataclass_fields__}


def test_a_sharding_known_on_one_side_is_unknown_not_changed() -> None:
    found = sharding_diff(module(entries=(entry(),)), module(entries=(entry(sharding=None),)))
    assert found is not None
    assert (found.row_count, found.unknown) == (0, 1)


def test_shapes_show_a_change_without_shardings() -> None:
    base = entry(sharding=None)
    assert _rows([base], [entry(sharding=None, device_shape="f32[8,16]")])[0][0] == "resharded"


def test_another_shape_is_reshaped() -> None:
    head = entry(global_shape="f32[16,16]", device_shape="f32[8,16]")
    assert _rows([entry()], [head])[0][0] == "reshaped"


def test_an_output_in_the_middle_does_not_change_those_after_it() -> None:
    def out(index: int, shape: str, sharding: str = "{replicated}") -> EntryFact:
        return entry(
            kind="output",
            number=None,
            index=f"{{{index}}}",
            name=None,
            global_shape=shape,
            device_shape=shape,
            sharding=sharding,
        )

    base = [out(0, "f32[2]"), out(1, "f32[3]")]
    head = [out(0, "f32[2]"), out(1, "f32[9]"), out(2, "f32[3]")]
    assert _rows(base, head) == [("added", "output", "{1}")]


def test_equal_changes_of_annotations_are_one_row() -> None:
    fact = ANNOTATION
    other = dataclasses.replace(fact, sharding="{replicated}")
    found = sharding_diff(module(annotations=(fact, fact)), module(annotations=(other, other)))
    assert found is not None
    assert [(row.count, row.head) for row in found.annotations] == [(2, other)]
    shardy = dataclasses.replace(other, annotation="xla.sdy.sharding")
    words = sharding_diff(module(annotations=(fact,)), module(annotations=(shardy,)))
    assert words is not None
    assert (words.annotations, words.problem) == ((), OTHER_SYSTEM.format("base", "head"))
    mirrored = sharding_diff(module(annotations=(shardy,)), module(annotations=(fact,)))
    assert mirrored is not None
    assert mirrored.problem == OTHER_SYSTEM.format("head", "base")


def test_annotations_of_one_side_are_not_compared() -> None:
    none, some = module(annotations=None), module(annotations=(ANNOTATION,))
    for base, head, told in ((some, none, "base"), (none, some, "head")):
        found = sharding_diff(base, head)
        assert found is not None
        assert (found.annotations, found.problem) == ((), ONE_SIDE.format(told))
    found = sharding_diff(none, module(annotations=()))
    assert found is not None
    assert found.problem == ""


def test_a_spelling_of_an_annotation_is_no_change() -> None:
    spelled = dataclasses.replace(ANNOTATION, sharding="{devices=[2]0,1}")
    same = sharding_diff(module(annotations=(ANNOTATION,)), module(annotations=(spelled,)))
    assert same is not None
    assert same.annotations == ()
