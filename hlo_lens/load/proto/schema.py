"""The messages of XLA's ``.hlo.pb`` files: names, numbers and types of the fields that are read.

Sources: xla/service/hlo.proto and xla/xla_data.proto as of August 2026, and the descriptors in
jaxlib 0.4.30, 0.10.2 and 0.12.0. Numbers never change; of what has moved, both places are here.
Strings are read as bytes, since one bad byte in a name would else refuse the whole file; enums as
their numbers. Fields that are not named here are skipped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from hlo_lens.text.errors import MissingPackageError

SCHEMA = """
HloSnapshot
  HloProto: hlo=1
HloProto
  HloModuleProto: hlo_module=1
  BufferAssignmentProto: buffer_assignment=3
HloModuleProto
  bytes: name=1 entry_computation_name=2
  int64: entry_computation_id=6 id=5
  HloComputationProto: computations=3*
  ProgramShapeProto: host_program_shape=4
  HloScheduleProto: schedule=7
  HloInputOutputAliasProto: input_output_alias=8
  bytes: payloads=22* backend_config=25
  HloBufferDonorProto: buffer_donor=18
  DeviceAssignmentProto: device_assignment=15
  StackFrameIndexProto: stack_frame_index=17
  FrontendAttributes: frontend_attributes=19
BufferAssignmentProto
  LogicalBufferProto: logical_buffers=1*
  BufferAssignmentProto_BufferAlias: buffer_aliases=2*
  BufferAllocationProto: buffer_allocations=3*
  HeapSimulatorTrace: heap_simulator_traces=4*
HloComputationProto
  bytes: name=1 execution_thread=8
  HloInstructionProto: instructions=2*
  ProgramShapeProto: program_shape=4
  int64: id=5 root_id=6
  bytes: backend_config=9
ProgramShapeProto
  ShapeProto: parameters=1* result=2
HloScheduleProto
  HloScheduleProto_SequencesEntry: sequences=1*
HloInputOutputAliasProto
  HloInputOutputAliasProto_AliasEntryProto: entries=1*
HloBufferDonorProto
  HloBufferDonorProto_BufferDonorEntryProto: entries=1*
DeviceAssignmentProto
  int32: replica_count=1 computation_count=2
StackFrameIndexProto
  bytes: file_names=1* function_names=2*
  StackFrameIndexProto_FileLocation: file_locations=3*
  StackFrameIndexProto_StackFrame: stack_frames=4*
FrontendAttributes
  FrontendAttributes_MapEntry: map=1*
LogicalBufferProto
  int64: id=1 size=2 color=4
  LogicalBufferProto_Location: defined_at=3
BufferAllocationProto
  int64: index=1 size=2 parameter_number=6 parameter_shape_index=10* color=8
  bool: is_thread_local=3 is_tuple=11 is_entry_computation_parameter=5 is_constant=12
      maybe_live_out=7
  BufferAllocationProto_Assigned: assigned=9*
HeapSimulatorTrace
  HeapSimulatorTrace_Event: events=1*
  bool: whole_module_simulation=2
  int64: buffer_allocation_index=3
BufferAssignmentProto_BufferAlias
  int64: source_buffer_id=1
  LogicalBufferProto_Location: location=2
HloInstructionProto
  bytes: name=1 opcode=2 fusion_kind=11 custom_call_target=28 comparison_direction=63
      comparison_type=72 async_execution_thread=79 comparison_order=102
  ShapeProto: shape=3 outfeed_shape=29 operand_shapes_with_layout=57*
  OpMetadata: metadata=7
  LiteralProto: literal=8
  int64: parameter_number=9 tuple_index=13 dimensions=14* feature_group_count=50
      batch_group_count=58 dynamic_slice_sizes=20* feature_index=25 channel_id=26 fft_length=32*
      gather_slice_sizes=34* id=35 operand_ids=36* control_predecessor_ids=37*
      called_computation_ids=38* all_reduce_id=45 delta=66 k=81 num_carries=95
  Window: window=15
  StatisticsViz: statistics_viz=82
  ConvolutionDimensionNumbers: convolution_dimension_numbers=16
  HloInstructionProto_SliceDimensions: slice_dimensions=17*
  int32: exponent_bits=18 mantissa_bits=19 distribution=23 fft_type=31 custom_call_schedule=76
      rng_algorithm=70 cross_program_prefetch_index=80 padding_type=75 custom_call_api_version=77
      is_associative=96
  PaddingConfig: padding_config=21
  bytes: outfeed_config=22 infeed_config=27 backend_config=43
  float: epsilon=24
  DotDimensionNumbers: dot_dimension_numbers=30
  RaggedDotDimensionNumbers: ragged_dot_dimension_numbers=90
  GatherDimensionNumbers: gather_dimension_numbers=33
  OpSharding: sharding=40 domain_entry_sharding=54 domain_exit_sharding=55
  Payload: backend_config_payload=99
  ReplicaGroup: replica_groups=49*
  bool: use_global_device_ids=71 is_host_transfer=47 is_stable=60 constrain_layout=56
      custom_call_has_side_effect=65 indices_are_sorted=67 unique_indices=69
      is_cross_program_prefetch=73 largest=85 is_composite=89 is_reverse=94 has_dynamic_root=100
  ScatterDimensionNumbers: scatter_dimension_numbers=48
  PrecisionConfig: precision_config=51
  SourceTarget: source_target_pairs=52*
  TriangularSolveOptions: triangular_solve_options=59
  CholeskyOptions: cholesky_options=62
  ParameterReplication: parameter_replication=61
  OutputOperandAliasing: output_operand_aliasing=74*
  FrontendAttributes: frontend_attributes=68
  CollectiveDeviceListProto: collective_device_list=87
  IotaReplicaGroupListProto: iota_collective_device_list=92
  MeshAxesReplicaGroupListProto: mesh_axes_replica_group_list=93
  ResultAccuracy: result_accuracy=91
ShapeProto
  int32: element_type=2
  int64: dimensions=3*
  bool: is_dynamic_dimension=6*
  ShapeProto: tuple_shapes=4*
  LayoutProto: layout=5
HloScheduleProto_SequencesEntry
  int64: key=1
  HloScheduleProto_InstructionSequence: value=2
HloInputOutputAliasProto_AliasEntryProto
  int64: output_shape_index=1* parameter_number=2 parameter_shape_index=3*
  int32: kind=4
HloBufferDonorProto_BufferDonorEntryProto
  int64: parameter_number=1 parameter_shape_index=2*
StackFrameIndexProto_FileLocation
  int32: file_name_id=1 function_name_id=2 line=3 end_line=5 column=4 end_column=6
StackFrameIndexProto_StackFrame
  int32: file_location_id=1 parent_frame_id=2
FrontendAttributes_MapEntry
  bytes: key=1 value=2
LogicalBufferProto_Location
  bytes: instruction_name=2
  int64: instruction_id=4 shape_index=3*
BufferAllocationProto_Assigned
  int64: logical_buffer_id=1 offset=2 size=3
  int32: element_type=4
HeapSimulatorTrace_Event
  int32: kind=1
  int64: buffer_id=2 share_with_canonical_id=5
  bytes: computation_name=3 instruction_name=4
OpMetadata
  bytes: op_type=1 op_name=2 source_file=3 deduplicated_name=12 scheduling_name=16
  int32: source_line=4 source_end_line=17 source_column=18 source_end_column=19 stack_frame_id=15
  Payload: metadata_payload=20
LiteralProto
  ShapeProto: shape=1
  bool: preds=2*
  bytes: s1s=30 s2s=26 s4s=21 s8s=15 u1s=31 u2s=27 u4s=22 u8s=3 f16s=11 bf16s=13 u16s=16 s16s=17
      f4e2m1fns=32 f8e3m4s=29 f8e4m3b11fnuzs=23 f8e4m3fns=20 f8e4m3fnuzs=25 f8e4m3s=28
      f8e5m2fnuzs=24 f8e5m2s=19 f8e8m0fnus=33 f6e3m2fns=35 f6e2m3fns=36
  int32: s32s=4* dynamic_sizes=34*
  int64: s64s=5*
  uint32: u32s=6*
  uint64: u64s=7*
  float: f32s=8* c64s=12*
  double: f64s=9* c128s=18*
Window
  WindowDimension: dimensions=1*
ConvolutionDimensionNumbers
  int64: input_batch_dimension=7 input_feature_dimension=8 input_spatial_dimensions=11*
      kernel_input_feature_dimension=3 kernel_output_feature_dimension=4
      kernel_spatial_dimensions=6* output_batch_dimension=9 output_feature_dimension=10
      output_spatial_dimensions=12*
HloInstructionProto_SliceDimensions
  int64: start=1 limit=2 stride=3
StatisticsViz
  int64: stat_index_to_visualize=1
  Statistic: statistics=2*
Statistic
  bytes: stat_name=1
  double: stat_val=2
PaddingConfig
  PaddingConfig_PaddingConfigDimension: dimensions=1*
DotDimensionNumbers
  int64: lhs_contracting_dimensions=1* rhs_contracting_dimensions=2* lhs_batch_dimensions=3*
      rhs_batch_dimensions=4*
RaggedDotDimensionNumbers
  DotDimensionNumbers: dot_dimension_numbers=1
  int64: lhs_ragged_dimensions=2* rhs_group_dimensions=3*
GatherDimensionNumbers
  int64: offset_dims=1* collapsed_slice_dims=2* start_index_map=3* index_vector_dim=4
      operand_batching_dims=5* start_indices_batching_dims=6*
OpSharding
  int32: type=1 last_tile_dims=8* iota_transpose_perm=10* shard_group_type=13
  int64: tile_assignment_dimensions=3* tile_assignment_devices=4* iota_reshape_dims=9*
      shard_group_id=12
  OpSharding: tuple_shardings=5*
  bool: replicate_on_last_tile_dim=6 is_shard_group=11
  OpMetadata: metadata=7*
  NamedShardingProto: named_sharding=14
Payload
  bytes: value=1
  int64: id=2
ReplicaGroup
  int64: replica_ids=1*
ScatterDimensionNumbers
  int64: update_window_dims=1* inserted_window_dims=2* scatter_dims_to_operand_dims=3*
      index_vector_dim=4 input_batching_dims=5* scatter_indices_batching_dims=6*
PrecisionConfig
  int32: operand_precision=1* algorithm=2
SourceTarget
  int64: source=1 target=2
TriangularSolveOptions
  bool: left_side=1 lower=2 unit_diagonal=3
  int32: transpose_a=4
CholeskyOptions
  bool: lower=1
ParameterReplication
  bool: replicated_at_leaf_buffers=1*
OutputOperandAliasing
  int64: output_shape_index=1* operand_index=2 operand_shape_index=3*
CollectiveDeviceListProto
  ReplicaGroup: replica_groups=1*
  IotaReplicaGroupListProto: iota_replica_group_list=2
IotaReplicaGroupListProto
  int64: num_replica_groups=1 num_devices_per_group=2 iota_reshape_dims=3*
  int32: iota_transpose_perm=4*
MeshAxesReplicaGroupListProto
  MeshProto: mesh=1
  AxisRefProto: axes=2*
ResultAccuracy
  int32: mode=1
  ResultAccuracy_Tolerance: tolerance=2
LayoutProto
  int64: minor_to_major=1* tail_padding_alignment_in_elements=16 element_size_in_bits=7
      memory_space=8 dynamic_shape_metadata_prefix_bytes=15
  TileProto: tiles=6*
  int32: index_primitive_type=11 pointer_primitive_type=12
  SplitConfigProto: split_configs=17*
HloScheduleProto_InstructionSequence
  int64: instruction_ids=1*
WindowDimension
  int64: size=1 stride=2 padding_low=3 padding_high=4 window_dilation=5 base_dilation=6
  bool: window_reversal=7
PaddingConfig_PaddingConfigDimension
  int64: edge_padding_low=1 edge_padding_high=2 interior_padding=3
NamedShardingProto
  MeshProto: mesh=2
  NamedShardingProto_DimensionSharding: dim_shardings=3*
  AxisRefProto: replicated_axes=4* unreduced_axes=5* manual_axes=7*
  int32: reduction_op=8
  OpMetadata: metadata=6*
MeshProto
  MeshProto_MeshAxis: axes=1*
  int64: device_ids=2*
  MeshProto_IotaTransform: iota_transform=3
AxisRefProto
  int64: mesh_axis_index=1
  AxisRefProto_SubAxis: sub_axis_info=2
ResultAccuracy_Tolerance
  double: atol=1 rtol=2
  int64: ulps=3
TileProto
  int64: dimensions=1*
SplitConfigProto
  int64: dimension=1 split_indices=2*
NamedShardingProto_DimensionSharding
  AxisRefProto: axes=1*
  bool: is_closed=2
MeshProto_MeshAxis
  bytes: name=1
  int64: size=2
MeshProto_IotaTransform
  int64: reshape_dims=1* transpose_perm=2*
AxisRefProto_SubAxis
  int64: pre_size=1 size=2
"""
"""A message, then by type its fields: name, number, and ``*`` for a list."""

_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "bytes": 12,
    "uint32": 13,
}
"""Source: google/protobuf/descriptor.proto, FieldDescriptorProto.Type."""
_MESSAGE = 11
_ONE, _MANY = 1, 3


def message_class(name: str) -> Any:
    """Return the class of a message; raises MissingPackageError without the protobuf package."""
    return _classes()[name]


@functools.cache
def _classes() -> dict[str, Any]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingPackageError(
            "reading protos needs the protobuf package: pip install 'hlo-lens[proto]'"
        ) from error
    file: Any = descriptor_pb2.FileDescriptorProto(
        name="hlo_lens/hlo.proto", package="hlo_lens.xla", syntax="proto2"
    )
    for name, fields in _messages():
        message = file.message_type.add(name=name)
        for label, number, kind, is_many in fields:
            field = message.field.add(name=label, number=number, label=_MANY if is_many else _ONE)
            field.type = _SCALARS.get(kind, _MESSAGE)
            if kind not in _SCALARS:
                field.type_name = f".hlo_lens.xla.{kind}"
    pool = descriptor_pool.DescriptorPool()  # our own: others may have XLA's protos in theirs
    pool.Add(file)
    return {
        m.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"hlo_lens.xla.{m.name}")
        )
        for m in file.message_type
    }


def _messages() -> Iterator[tuple[str, list[tuple[str, int, str, bool]]]]:
    """Yield each message and its fields: name, number, type, whether it is a list."""
    for block in re.split(r"\n(?=\S)", SCHEMA.strip()):
        name, *words = block.split()
        kind = ""
        fields: list[tuple[str, int, str, bool]] = []
        for word in words:
            label, is_field, number = word.partition("=")
            if is_field:
                fields.append((label, int(number.rstrip("*")), kind, number.endswith("*")))
            else:
                kind = word.rstrip(":")
        yield name, fields
