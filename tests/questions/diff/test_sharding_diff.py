"""Changed shardings and annotations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hlo_lens import snapshot
from hlo_lens.questions.diff.shardings import ONE_SIDE, OTHER_SYSTEM, sharding_diff
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.snapshots.snapshot_file import Snapshot
from tests.snapshots import entry, module

if TYPE_CHECKING:
    from hlo_lens.questions.snapshots.figures import EntryFact


ANNOTATION = Annotation(
    annotation="Sharding",
    shape="f32[8]",
    sharding="{devices=[2]<=[2]}",
    spec=None,
    source=None,
    op_name="jit(f)/constraint",
)


def _rows(base: list[EntryFact], head: list[EntryFact]) -> list[tuple[object, ...]]:
    found = sharding_diff(module(entries=tuple(base)), module(entries=tuple(head)))
    assert found is not None
    return [row[:3] for row in found.rows()]


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
    assert [(row.count, row.head_spec) for row in found.annotations] == [(2, "{replicated}")]
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


def annotation_changes(base: list[Annotation], head: list[Annotation]) -> list[tuple[str, int]]:
    """Return change and number of the annotations that differ, the same in both directions."""
    sides = module(annotations=tuple(base)), module(annotations=tuple(head))
    there, back = sharding_diff(*sides), sharding_diff(*sides[::-1])
    assert there is not None
    assert back is not None
    mirror = {"added": "removed", "removed": "added"}
    found = [(row.change, row.count) for row in there.annotations]
    mirrored = [(mirror.get(row.change, row.change), row.count) for row in back.annotations]
    assert sorted(found) == sorted(mirrored)
    return found


PLACED = dataclasses.replace(ANNOTATION, source="t.py:7", spec="P('x',)")


def test_other_names_of_mesh_axes_are_noise() -> None:
    base = module(entries=(entry(spec="P('x',)"),), annotations=(PLACED,))
    other = dataclasses.replace(PLACED, spec="P('data',)")
    head = module(entries=(entry(spec="P('data',)"),), annotations=(other,))
    found = sharding_diff(base, head)
    assert found is not None
    assert (found.row_count, found.renamed) == (0, 2)


def test_an_annotation_repeated_by_an_unrolled_loop_is_no_change() -> None:
    paths = [f"jit(f)/jvp()/constraint_{n}" for n in range(4)]
    unrolled = [dataclasses.replace(PLACED, op_name=path, source="t.py:9") for path in paths]
    assert annotation_changes([PLACED], unrolled) == []
    assert annotation_changes([PLACED, PLACED], [PLACED]) == []


def test_words_of_shard_map_in_versions_of_jax_are_no_change() -> None:
    def fact(annotation: str, sharding: str, spec: str | None = None) -> Annotation:
        path = f"jit(f)/{annotation}/shard_map"
        return dataclasses.replace(
            PLACED, annotation=annotation, sharding=sharding, spec=spec, op_name=path
        )

    tiles = "{devices=[2]<=[2]}"
    words = (
        [
            fact("Sharding", tiles),
            fact("SPMDFullToShardShape", "{manual}"),
            fact("Sharding", "{manual}"),
            fact("SPMDShardToFullShape", tiles),
        ],
        [
            fact("xla.sdy.GlobalToLocalShape", tiles, "P('x',)"),
            fact("xla.sdy.LocalToGlobalShape", tiles, "P('x',)"),
        ],
        [
            fact("Sharding", tiles, "P('x',)"),
            fact("xla.sdy.GlobalToLocalShape", "{manual}"),
            fact("xla.sdy.LocalToGlobalShape", tiles, "P('x',)"),
        ],
    )
    for one in words:
        for other in words:
            assert annotation_changes(one, other) == []


_MESHES = r'frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>}"}'


def facts(lines: str, header: str = "") -> list[tuple[str, str | None, str | None, str | None]]:
    text = f"HloModule jit_f, num_partitions=8{header}\n\nENTRY main {{\n{lines}\n}}\n"
    found = snapshot(text)
    assert isinstance(found, Snapshot)
    (module,) = found.modules
    return [(a.annotation, a.shape, a.sharding, a.spec) for a in module.annotations or ()]


def test_operands_that_enter_shard_map_have_their_global_shape() -> None:
    values = r"[<@mesh, [{\"x\"}, {}]>, <@mesh, [{\"y\"}]>]"
    text = (
        "  p = f32[8,16]{1,0} parameter(0)\n  q = f32[64]{0} parameter(1)\n"
        "  ROOT c = (f32[4,16]{1,0}, f32[16]{0}) custom-call(p, q), "
        'custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes='
        f'{{xla.sdy.in_shardings="#sdy.sharding_per_value<{values}>"}}'
    )
    assert facts(text, f", {_MESHES}") == [
        (
            "xla.sdy.GlobalToLocalShape",
            "f32[8,16]",
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
            "P('x',)",
        ),
        (
            "xla.sdy.GlobalToLocalShape",
            "f32[64]",
            "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "P('y',)",
        ),
    ]


def test_shardings_by_mesh_axes_are_printed_as_tiles() -> None:
    text = (
        "  p = f32[8,16]{1,0} parameter(0)\n"
        '  ROOT c = f32[8,16]{1,0} custom-call(p), custom_call_target="Sharding", '
        "sharding={mesh['x'=2,'y'=4], [{'x'}, {'y'}]}"
    )
    assert facts(text) == [("Sharding", "f32[8,16]", "{devices=[2,4]<=[8]}", "P('x', 'y')")]
