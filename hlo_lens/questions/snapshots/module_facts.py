"""Figures of a module from the results of its passes."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import opcodes
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import backend_of_dump, hlo_text, summary
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.findings.findings import findings_basis
from hlo_lens.questions.findings.module_findings import module_findings
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.snapshots.facts import CollectivesFacts, MeshFacts, ModuleFacts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.results import Collectives

    F = TypeVar("F", bound=DataclassInstance)


def module_facts(analysis: ModuleDump) -> ModuleFacts:
    """Return the figures of a module, without rows; without HLO text only memory is known."""
    results = memory_results(analysis)
    memory = None if results is None else results.statement
    if not analysis.has_hlo:
        return ModuleFacts(stage=analysis.stage, backend=backend_of_dump(analysis), memory=memory)
    size, work = summary(analysis), flops(analysis)
    is_known = work.total is not None
    findings = module_findings(analysis)
    return copied(
        ModuleFacts,
        size,
        stage=analysis.stage,
        backend=backend_of_dump(analysis),
        opcodes={one.opcode: one.instructions for one in opcodes(analysis).counts},
        unknown_opcodes=opcodes(analysis).unknown_opcodes,
        unknown_attributes=hlo_text(analysis).unknown_attributes,
        parameters=entry_signature(analysis).parameter_count,
        flops=work.total,
        flops_at_least=work.at_least,
        flops_is_at_most=work.is_at_most if is_known else None,
        flops_is_estimate=work.is_estimate if is_known else None,
        collectives=collectives_facts(collectives(analysis)),
        memory=memory,
        sharding=None,
        findings=findings.findings,
        findings_basis=findings_basis(findings),
    )


def copied(kind: type[F], source: object, /, **others: object) -> F:
    """Return a dataclass with the fields of another by name, and others as given."""
    names = _names(kind, tuple(others))
    return kind(**{name: getattr(source, name) for name in names}, **others)


@cache
def _names(kind: type[DataclassInstance], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that are not given."""
    return tuple(field.name for field in fields(kind) if field.name not in given)


def collectives_facts(found: Collectives) -> CollectivesFacts:
    """Return the figures of a module's collectives."""
    meshes = tuple(MeshFacts(axes=mesh.sizes, source=mesh.source) for mesh in found.meshes)
    runs, wire = found.dynamic_bounds(), found.wire_bounds
    return CollectivesFacts(
        static=found.static_counts(),
        dynamic={kind: None if one is None else one.most for kind, one in runs.items()},
        wire_bytes_per_device=None if wire is None else wire.most,
        dynamic_is_at_most={kind: one is not None and one.is_at_most for kind, one in runs.items()},
        wire_bytes_is_at_most=wire is not None and wire.is_at_most,
        unknown_opcodes=dict(found.unknown_opcodes),
        mesh=meshes[0] if meshes else None,
        meshes=meshes,
    )
