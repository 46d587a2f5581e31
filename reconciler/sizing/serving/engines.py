"""The command lines of vLLM and SGLang: how their flags are named, and what those do to memory.

vLLM: `vllm/engine/arg_utils.py` (0.7 to 0.26); SGLang: `python/sglang/srt/server_args.py` (0.4 to 0.5).
"""

import re

from reconciler.kube.patterns import later
from reconciler.launch.framework import Command, Framework
from reconciler.launch.launchers import read_script_processes

VLLM = Framework(
    name="vllm",
    source="vLLM",
    commands=(Command(program="vllm", verbs=later("serve"), read_processes=read_script_processes),),
    programs=later(r"vllm\.entrypoints\.(?:openai\.)?api_server"),
    config_flags=("config",),
    settings={
        "model": ("model", "model_tag"),
        "length": ("max_model_len",),
        "fraction": ("gpu_memory_utilization",),
        "sequences": ("max_num_seqs",),
        "batched": ("max_num_batched_tokens",),
        "tensor": ("tensor_parallel_size", "tp"),
        "pipeline": ("pipeline_parallel_size", "pp"),
        "data": ("data_parallel_size", "dp"),
        "experts": ("enable_expert_parallel", "ep"),
        "weights": ("quantization", "q"),
        "dtype": ("dtype",),
        "cache": ("kv_cache_dtype",),
        "eager": ("enforce_eager",),
    },
    defaults={},
)
SGLANG = Framework(
    name="sglang",
    source="SGLang",
    commands=(Command(program="sglang", verbs=later("serve"), read_processes=read_script_processes),),
    programs=later(r"sglang\.launch_server"),
    config_flags=("config",),
    settings={
        "model": ("model_path", "model"),
        "length": ("context_length",),
        "fraction": ("mem_fraction_static",),
        "sequences": ("max_running_requests",),
        "batched": ("chunked_prefill_size", "max_prefill_tokens"),
        "tensor": ("tensor_parallel_size", "tp_size", "tp"),
        "pipeline": ("pipeline_parallel_size", "pp_size", "pp"),
        "data": ("data_parallel_size", "dp_size", "dp"),
        "experts": ("expert_parallel_size", "ep_size", "ep", "enable_ep_moe"),
        "weights": ("quantization",),
        "dtype": ("dtype",),
        "cache": ("kv_cache_dtype",),
        "eager": ("disable_cuda_graph",),
    },
    defaults={},
)
SERVERS = (VLLM, SGLANG)

OTHER_MODELS = re.compile(
    r"speculative\w*|num_speculative_tokens|draft_model\w*|hf_overrides|model_loader_extra_config|json_model_override_args"
    r"|cpu_offload_gb|cpu_offload_params|offload_\w+|enable_dp_attention\w*|decode_context_parallel_size|dcp"
    r"|prefill_context_parallel_size|attn_cp_size|kv_cache_memory_bytes|max_total_tokens|num_gpu_blocks_override"
    r"|hierarchical_cache\w*|enable_lmcache|moe_dense_tp_size|ep_num_redundant_experts|enable_eplb|data_parallel_size_local"
)
"""Flags that add a model, move weights, or set the cache by other means: their effect is large and not modelled."""

HARMLESS = re.compile(
    r"host|port|uds|api_key|served_model_name|tokenizer\w*|skip_tokenizer_init|trust_remote_code|download_dir|revision"
    r"|code_revision|seed|random_seed|disable_log_\w+|enable_log_\w+|log_\w+|uvicorn_\w+|max_log_len|root_path|allow\w+"
    r"|ssl_\w+|middleware|chat_template\w*|response_role|enable_auto_tool_choice|tool_call_parser|tool_parser_plugin"
    r"|reasoning_parser\w*|enable_reasoning|return_tokens_as_token_ids|guided_decoding_backend|structured_outputs_config"
    r"|grammar_backend|disable_fastapi_docs|api_server_count|override_generation_config|generation_config|logits_processors"
    r"|logprobs_mode|max_logprobs|config_format|load_format|safetensors_load_strategy|model_impl|runner|convert|task"
    r"|(?:no_)?enable_(?:prefix_caching|chunked_prefill|metrics\w*|request_id_headers|server_load_tracking|sleep_mode"
    r"|cache_report|p2p_check|force_include_usage|prompt_tokens_details)|prefix_caching_hash_algo|schedul\w+|schedule_\w+"
    r"|async_scheduling|preemption_mode|num_scheduler_steps|multi_step_stream_outputs|swap_space|block_size|page_size"
    r"|distributed_\w+|nnodes|node_rank|master_(?:addr|port)|dist_\w+|nccl_\w+|headless|data_parallel_(?:address|rpc_port"
    r"|backend|rank|start_rank|hybrid_lb|external_lb)|worker_\w+|ray_\w+|device|disable_(?:radix_cache|custom_all_reduce"
    r"|overlap_schedule|frontend_multiprocessing|async_output_proc|outlines_disk_cache|cascade_attn|chunked_prefix_cache"
    r"|access_log_for_endpoints)|disable_uvicorn_access_log|stream_\w+|watchdog_timeout|show_time_cost|warmups|skip_server_warmup"
    r"|crash_dump_folder|decode_log_interval|otlp_\w+|collect_detailed_traces|kv_events_config|additional_config"
    r"|sampling_\w+|attention_backend|sampling_backend|moe_(?:runner|a2a)_backend|enable_mixed_chunk|bucket\w*"
    r"|file_storage_path|is_embedding|sleep_on_idle|rope_\w+|preferred_sampling_params|default_chat_template_kwargs"
    r"|enable_flashinfer\w*|enable_tokenizer_\w+|exclude_tools_when_tool_choice_none|all2all_backend|seq_\w+|kv_sharing_\w+"
)
"""Flags that do not change the memory of the GPU, or only where their effect is within the uncertainty."""
