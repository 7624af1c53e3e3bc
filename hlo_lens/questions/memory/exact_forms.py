"""Forms for which estimates are exact, by compiler; made by ``tests.estimate_table --write``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def _forms(*others: str, **words: str) -> frozenset[str]:
    """Return forms: whole ones, and words that follow the name of their argument."""
    pairs = (f"{first} {word}" for first, text in words.items() for word in text.split())
    return frozenset((*others, *pairs))


EXACT_FORMS: Mapping[str, frozenset[str]] = {
    "cpu, jaxlib 0.4.35 and newer": _forms(
        "elements of tuples as operands",
        attribute="""
            api_version body branch_computations calls channel_id collapsed_slice_dims condition
            custom_call_target device_ids dimensions direction dynamic_slice_sizes fft_length
            fft_type frontend_attributes index index_vector_dim inserted_window_dims iota_dimension
            is_stable kind lhs_batch_dims lhs_contracting_dims offset_dims
            operand_layout_constraints padding replica_groups rhs_batch_dims rhs_contracting_dims
            scatter_dims_to_operand_dims sharding slice slice_sizes source_target_pairs
            start_index_map to_apply update_window_dims use_global_device_ids window
        """,
        key="""
            dynamic_variables fusion_config init kind known_induction_variable known_init_step
            known_trip_count n outer_dimension_partitions step tuple_index
        """,
        opcode="""
            abs add all-gather all-reduce all-to-all and bitcast bitcast-convert broadcast call
            clamp collective-permute compare concatenate conditional constant convert copy cosine
            custom-call divide dot dynamic-slice dynamic-update-slice exponential fft fusion gather
            get-tuple-element iota is-finite log maximum minimum multiply negate or pad parameter
            partition-id power real reduce reduce-scatter reduce-window rsqrt scatter select
            shift-left shift-right-logical sine slice sort sqrt subtract tanh transpose tuple while
            xor
        """,
    ),
    "gpu, jaxlib 0.7.2 and newer": _forms(
        "all-gather-start of arrays",
        "all-gather-start of tuples of several operands",
        "all-reduce-start of arrays",
        "all-to-all-start of tuples",
        "async-start of tuples",
        "async-start of tuples of several operands",
        "collective-permute-start of arrays",
        "custom-call to __cudnn$convForward",
        "elements of tuples as operands",
        attribute="""
            body calls channel_id collapsed_slice_dims condition control-predecessors
            custom_call_target device_ids dim_labels dimensions direction dynamic_slice_sizes
            fft_length fft_type frontend_attributes index index_vector_dim inserted_window_dims
            iota_dimension kind lhs_batch_dims lhs_contracting_dims offset_dims padding
            replica_groups rhs_batch_dims rhs_contracting_dims scatter_dims_to_operand_dims sharding
            slice slice_sizes source_target_pairs start_index_map to_apply update_window_dims
            use_global_device_ids window
        """,
        key="""
            activation_mode algo_id algorithm backend block_level_fusion_config byte_offset
            byte_stride collective_backend_config collectives_mode communication_domain
            conv_result_scale cudnn_conv_backend_config custom_fusion_config device_type
            dynamic_slice_config dynamic_variables force_earliest_schedule fusion_backend_config
            group_size init is_cudnn_frontend is_pipelined is_spmd_generated is_sync is_tma_allowed
            is_warp_specialization_allowed kernel_index kernel_strategy kind
            known_induction_variable known_init_step known_trip_count leakyrelu_alpha loop_index
            math_type n name native_emitter_backend_config num_ctas num_stages num_tiles_per_pid
            num_warps operation_queue_id output_tiles reification_cost side_input_scale sizes step
            tuning_knobs tuple_index type unroll_factor waves_per_eu
        """,
        opcode="""
            abs add all-gather-done all-gather-start all-reduce all-reduce-done all-reduce-start
            all-to-all all-to-all-done all-to-all-start and async-done async-start bitcast broadcast
            clamp collective-permute-done collective-permute-start compare concatenate conditional
            constant convert copy cosine custom-call divide dot dynamic-slice dynamic-update-slice
            exponential fft fusion gather get-tuple-element iota is-finite log maximum minimum
            multiply negate or pad parameter partition-id power real reduce reduce-scatter
            reduce-scatter-done reduce-scatter-start reduce-window reshape rsqrt scatter select
            shift-left shift-right-logical sine slice sort sqrt subtract tanh transpose tuple while
            xor
        """,
    ),
    "tpu, libtpu 0.0.50 and newer, tables of 32 bytes": _forms(
        "elements of tuples as operands",
        aliasing="""
            fusion
        """,
        attribute="""
            called_computations cross_program_prefetch_index
        """,
        key="""
            buffering_level collective_algorithm_config convolution_algorithm_config cost_model_type
            debug emitter estimated_bundle_count estimated_cycles estimated_scoped_vmem_bytes
            estimated_vmem_bytes input_window_bounds is_mask iteration_bounds kernel_window_bounds
            loop_config loop_order megacore_allreduce_bytes megacore_config megacore_split_dim
            ml_estimated_microseconds output_reverse_dimensions output_window_bounds
            pad_input_on_minor_dim pad_output_on_minor_dim retry_config retry_count
            scratchpad_allocation_size strategy unrolled_loops vectorizing_shape window_config
        """,
        opcode="""
            tanh
        """,
    ),
    "tpu, libtpu 0.0.50 and newer, tables of 512 bytes": _forms(
        "async-start of tuples",
        "collective-permute-start of arrays",
        "copy-start of arrays",
        "custom-call to AllocateBuffer",
        "custom-call to AssumeGatherIndicesInBound",
        "custom-call to AsyncCollectiveDone",
        "custom-call to AsyncCollectiveStart",
        "custom-call to ConcatBitcast",
        "custom-call to GatherScatterIndicesBitpacked",
        "custom-call to SliceId",
        "custom-call to X64Combine",
        "elements of tuples as operands",
        "slice-start of tuples",
        aliasing="""
            fusion
        """,
        attribute="""
            body branch_computations calls channel_id collapsed_slice_dims condition
            cross_program_prefetch_index custom_call_target dim_labels dimensions direction
            dynamic_slice_sizes frontend_attributes index index_vector_dim inserted_window_dims
            iota_dimension is_host_transfer kind offset_dims operand_layout_constraints
            operand_precision output_to_operand_aliasing padding replica_groups
            scatter_dims_to_operand_dims sharding slice slice_sizes source_target_pairs
            start_index_map to_apply update_window_dims use_global_device_ids window
        """,
        key="""
            aggregated_send_recv_config aliasing_operands async_collective_fusion_config
            barrier_config barrier_type bitwidth buffering_level collective_algorithm_config
            continuation_config convolution_algorithm_config cost_model_type debug dim_level_types
            dim_ordered dim_unique dimensions dma_priority dynamic_shape_metadata_prefix_bytes
            element_size_in_bits element_type emitter estimated_bundle_count estimated_cycles
            estimated_scoped_vmem_bytes estimated_vmem_bytes flag_configs flag_end flag_start
            flag_type float_type_correction_info id index_known_bits index_primitive_type indices
            indices_config input_window_bounds integer integer_config integer_value
            is_dynamic_dimension is_index_aligned is_mask iteration_bounds kernel_window_bounds
            layout lists memory_space minor_to_major ml_estimated_microseconds offset ones
            operand_original_end operand_original_start original_shape original_type
            output_chunk_bound output_chunk_bound_config output_reverse_dimensions
            output_tuple_original_end output_tuple_original_start output_window_bounds
            pad_input_on_minor_dim pad_output_on_minor_dim pointer_primitive_type retry_config
            retry_count scoped_memory_configs size split_configs status strategy
            tail_padding_alignment_in_elements tiles tuple_shapes used_scoped_memory_configs value
            window_config zeroes
        """,
        opcode="""
            abs add after-all all-gather all-reduce all-to-all and async-done async-start bitcast
            bitcast-convert broadcast clamp collective-permute-done collective-permute-start compare
            concatenate conditional constant convert convolution copy copy-done copy-start cosine
            custom-call divide dynamic-slice dynamic-update-slice exponential fusion gather
            get-tuple-element iota is-finite log maximum minimum multiply negate or pad parameter
            partition-id power recv recv-done reduce reduce-scatter reduce-window replica-id reshape
            rsqrt scatter select send send-done shift-left shift-right-logical sine slice slice-done
            slice-start sort sqrt subtract tanh transpose tuple while xor
        """,
    ),
}
