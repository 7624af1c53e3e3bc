"""Outputs of the commands on the samples, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import output_of
from tests.corpus import WRITE

HERE = Path(__file__).parent

COMMANDS = {
    "report_cpu_tp_mlp.txt": "report sample_dumps/cpu/tp_mlp",
    "report_tpu_tp_mlp.txt": "report sample_dumps/tpu/tp_mlp",
    "report_gpu_shard_map_collectives.txt": "report sample_dumps/gpu/shard_map_collectives",
    "report_cpu_tp_mlp.md": "report sample_dumps/cpu/tp_mlp -f md -n 5",
    "report_cpu_jax_0_4_30.json": "report sample_dumps/cpu_jax_0_4_30/tp_mlp -f json",
    "memory_tpu_tp_mlp.txt": "memory sample_dumps/tpu/tp_mlp",
    "memory_gpu_fsdp_by_source.txt": "memory sample_dumps/gpu/fsdp_transformer --by source",
    "memory_cpu_op_tree.txt": "memory sample_dumps/cpu/tp_mlp --by op -n 0",
    "memory_cpu_0_4_30.md": "memory sample_dumps/cpu_jax_0_4_30/tp_mlp -f md -n 4",
    "collectives_tpu_tp_mlp.txt": "collectives sample_dumps/tpu/tp_mlp",
    "collectives_why.txt": "collectives sample_dumps/tpu/tp_mlp --why all-reduce.11",
    "loops_tpu_shard_map_collectives.txt": "loops sample_dumps/tpu/shard_map_collectives",
    "sharding_tpu_wasteful.txt": "sharding sample_dumps/tpu/wasteful",
    "lint_cpu_wasteful.txt": "lint sample_dumps/cpu/wasteful",
    "shard_uneven.txt": "shard {devices=[4,2]<=[8]} --shape 10,16 --mesh x=4,y=2",
    "report_log_tpu_oom.txt": "report sample_dumps/logs/tpu_oom_libtpu_0_0_17.txt",
    "report_log_tpu_oom.json": "report sample_dumps/logs/tpu_oom_libtpu_0_0_51.txt -f json",
    "report_with_log.md": (
        "report sample_dumps/logs/warned --module jit_update "
        "--log sample_dumps/logs/warned_jax_0_10_2.txt -f md -n 2"
    ),
    "report_log_custom_partitioning.txt": (
        "report sample_dumps/logs/custom_partitioning_jax_0_6_2.txt"
    ),
    "ls_cpu_tp_mlp.txt": "ls sample_dumps/cpu/tp_mlp --each",
    "report_call_tree.txt": "report sample_dumps/logs/traced_dtensor.txt",
    "tree_tpu_wire_bytes.txt": "tree sample_dumps/tpu/tp_mlp --measure wire-bytes",
    "diff_gpu_added_all_gather.txt": "diff sample_dumps/pairs/gpu/base.tar.xz "
    "sample_dumps/pairs/gpu/added_all_gather.tar.xz",
    "diff_cpu_jax_0_12_0.md": "diff sample_dumps/cpu/tp_mlp "
    "sample_dumps/cpu_jax_0_12_0/tp_mlp -f md",
    "check_tpu_failed.txt": "check sample_dumps/pairs/tpu/four_layers.tar.xz "
    "--baseline sample_dumps/pairs/tpu/base.tar.xz --budget sample_dumps/hlo-lens.toml",
    "source_tpu_tp_mlp.txt": "source sample_dumps/tpu/tp_mlp --root sample_dumps",
    "save_gpu_base.json": "save sample_dumps/pairs/gpu/base.tar.xz",
    "report_cpu_jax_0_12_0.csv": "report sample_dumps/cpu_jax_0_12_0/tp_mlp -f csv",
}


@pytest.mark.parametrize(("name", "command"), COMMANDS.items(), ids=COMMANDS)
def test_output_is_as_expected(name: str, command: str) -> None:
    file = HERE / name
    text = output_of(command.split())
    if WRITE:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
