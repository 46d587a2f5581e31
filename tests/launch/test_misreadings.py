"""Lines that were once misread in silence: each is read as the framework reads it, refused, or warned about."""

import pytest

from reconciler import resources
from reconciler.launch import FlagTable, parse_launch, review_flags

TABLE = FlagTable(resources.read("data/flags.json"))
QWEN = "--model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2"
CHAT = f"deepspeed main.py --data_split 2,4,4 {QWEN} --max_seq_len 1024 --deepspeed"
AXOLOTL = "base_model: org/model\nsequence_len: 2048\nmicro_batch_size: 1\n"
FACTORY = "model_name_or_path: org/model\nfinetuning_type: full\nper_device_train_batch_size: 1\n"
RECIPES = "torchrun --nproc_per_node 8 -m llama_recipes.finetuning --enable_fsdp --model_name org/model"
TUNE = "tune run full_finetune_single_device --config c.yaml"
TUNED = "checkpointer: {checkpoint_dir: /m/org-model}\ntokenizer: {max_seq_len: 2048}\nbatch_size: 2\ndtype: bf16\n"
SFT = f"accelerate launch examples/scripts/sft.py {QWEN} --dataset_name a/b"

OPENRLHF = (
    "deepspeed --module openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B --max_len 2048 --micro_train_batch_size 2"
)
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 "
    "--tensor-model-parallel-size 2 --swiglu --vocab-size 32000 --tokenizer-type NullTokenizer"
)
JSON_256 = "eyJtYXhfc2VxX2xlbmd0aCI6IDI1Nn0="  # {"max_seq_length": 256}
TRAINER = "python -m tuning.sft_trainer --max_seq_length 256"

READ = {
    "OpenRLHF: Liger's kernels compute no loss": (f"{OPENRLHF} --use_liger_kernel", {}, "fused_loss=false"),
    "fms: the loss of its kernels": (
        f"{TRAINER} {QWEN} --fast_kernels True True True",
        {},
        "fast_loss=true",
    ),
    "fms: kernels without the loss": (
        f"{TRAINER} {QWEN} --fast_kernels False True True",
        {},
        "fast_loss=false",
    ),
    "LLaMA-Factory: GaLore": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "use_galore: true\ngalore_layerwise: true\n"},
        "optimizer=galore_adamw_layerwise optimizer_rank=16",
    ),
    "LLaMA-Factory: BAdam": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "use_badam: true\nbf16: true\n"},
        "optimizer=badam precision=bf16",
    ),
    "LLaMA-Factory: APOLLO": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "use_apollo: true\napollo_rank: 256\n"},
        "optimizer=apollo_adamw optimizer_rank=256",
    ),
    "axolotl: CCE is on by its plugin": (
        "axolotl train a.yaml",
        {"a.yaml": AXOLOTL + "plugins:\n- axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"},
        "fused_loss=true",
    ),
    "axolotl: bf16 auto loads bf16 weights": (
        "axolotl train a.yaml",
        {"a.yaml": AXOLOTL + "bf16: auto\n"},
        "precision=bf16",
    ),
    "axolotl: mixed precision under ZeRO": (
        "axolotl train a.yaml",
        {"a.yaml": AXOLOTL + "bf16: auto\ndeepspeed: z.json\n", "z.json": '{"zero_optimization": {"stage": 3}}'},
        "precision=bf16-mixed strategy=zero-3",
    ),
    "GPTQ by the model's name": (
        f"python examples/scripts/sft.py --use_peft {QWEN.replace('7B', '7B-Instruct-GPTQ-Int4')}",
        {},
        "method=gptq-lora quantisation=gptq",
    ),
    "AWQ by the model's name": (
        f"python examples/scripts/sft.py --use_peft {QWEN.replace('7B', '7B-Instruct-AWQ')}",
        {},
        "method=gptq-lora",
    ),
    "bitsandbytes by the model's name": (
        "trl sft --use_peft --model_name_or_path unsloth/llama-3-8b-bnb-4bit",
        {},
        "method=qlora quantisation=4bit",
    ),
    "a size is not a number of bits": ("trl sft --model_name_or_path Qwen/Qwen1.5-4B", {}, "method=full"),
    "Adafactor by its own flag": (f"trl sft {QWEN} --adafactor", {}, "optimizer=adafactor"),
    "TRL's own configurations of accelerate": (
        f"trl sft {QWEN} --accelerate_config fsdp2 --num_processes 4",
        {},
        "strategy=fsdp-full processes=4",
    ),
    "TRL: eight processes": (f"trl sft {QWEN} --accelerate_config zero3", {}, "strategy=zero-3 processes=8"),
    "TRL: a file of accelerate": (
        f"trl sft {QWEN} --accelerate_config my.yaml",
        {"my.yaml": "distributed_type: FSDP\nnum_processes: 2\n"},
        "strategy=fsdp-full processes=2",
    ),
    "llama-recipes: nested flags": (
        f"{RECIPES} --fsdp_config.pure_bf16 --fsdp_config.optimizer anyprecision",
        {},
        "precision=bf16 optimizer=adamw_anyprecision strategy=fsdp-full",
    ),
    "llama-recipes: another strategy": (
        f"{RECIPES} --fsdp_config.sharding_strategy SHARD_GRAD_OP",
        {},
        "strategy=fsdp-grad-op",
    ),
    "torchtune: names of matrices": (
        TUNE.replace("full", "lora") + " model.lora_attn_modules=[q_proj,output_proj] model.apply_lora_to_mlp=True",
        {"c.yaml": TUNED},
        "lora_targets=q_proj,o_proj,gate_proj,up_proj,down_proj",
    ),
    "torchtune: the optimizer in the backward pass": (
        f"{TUNE} optimizer._component_=bitsandbytes.optim.PagedAdamW8bit optimizer_in_bwd=True",
        {"c.yaml": TUNED},
        "optimizer=paged_adamw_8bit_in_backward",
    ),
    "torchtune: gradients sharded alone": (
        "tune run --nproc_per_node 4 full_finetune_distributed --config c.yaml fsdp_reshard_after_forward=False",
        {"c.yaml": TUNED},
        "strategy=fsdp-grad-op",
    ),
    "arguments of the model in JSON": (
        f"""trl sft {QWEN} --use_peft --model_init_kwargs '{{"load_in_4bit": true, "attn_implementation": "eager"}}'""",
        {},
        "method=qlora attention=eager",
    ),
    "JSON in a file of another name": (
        f"accelerate launch --use_deepspeed --deepspeed_config_file z.conf examples/scripts/sft.py {QWEN}",
        {"z.conf": '{"zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8}}'},
        "strategy=zero-3",
    ),
    "a switch of FSDP": (f"torchrun train.py {QWEN} --max_seq_length 512 --fsdp True", {}, "strategy=fsdp-full"),
    "a switch of FSDP that is off": (f"torchrun train.py {QWEN} --max_seq_length 512 --fsdp False", {}, "strategy=ddp"),
    "a script of the same name": (f"python mine/sft.py {QWEN} --max_seq_length 512 --my_flag 1", {}, "precision=fp32"),
    "ms-swift: one process": ("swift sft --model Qwen/Qwen2.5-7B --max_length 2048", {}, "processes=1"),
    "LLaMA-Factory: one process for each visible GPU": (
        "CUDA_VISIBLE_DEVICES=0,1,2,3 llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY},
        "processes=4",
    ),
    "fms-hf-tuning: the variable wins over the file": (
        f"export SFT_TRAINER_CONFIG_JSON_ENV_VAR={JSON_256} SFT_TRAINER_CONFIG_JSON_PATH=/t.json; {TRAINER}",
        {"/t.json": '{"model_name_or_path": "org/model", "max_seq_length": 2048}'},
        "sequence=256",
    ),
    "LLaMA-Factory: Muon": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "use_muon: true\n"},
        "optimizer=muon method=full",
    ),
    "LLaMA-Factory: a reward model keeps the vocabulary's head": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "stage: rm\n"},
        "objective=value-head",
    ),
    "LLaMA-Factory: SimPO": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "stage: dpo\npref_loss: simpo\n"},
        "objective=orpo",
    ),
    "ms-swift: sequence parallelism": (
        "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --max_length 32768 --sequence_parallel_size 8",
        {},
        "context=8 processes=8",
    ),
    "ms-swift: DPO unless it says otherwise": (
        "swift rlhf --model Qwen/Qwen2.5-7B --max_length 2048",
        {},
        "objective=dpo method=lora",
    ),
    "torchtune: activation offloading": (
        f"{TUNE} enable_activation_offloading=True",
        {"c.yaml": TUNED},
        "offloads_activations=true",
    ),
    "torchtune: AdamW in the backward pass": (
        f"{TUNE} optimizer_in_bwd=True",
        {"c.yaml": TUNED},
        "optimizer=adamw_torch_in_backward",
    ),
    "axolotl: offloaded checkpoints": (
        "axolotl train a.yaml --gradient-checkpointing offload",
        {"a.yaml": AXOLOTL},
        "checkpointing=true offloads_activations=true",
    ),
    "axolotl: context parallelism": (
        "axolotl train a.yaml",
        {"a.yaml": AXOLOTL + "context_parallel_size: 4\nheads_k_stride: 1\nring_attn_func: batch_ring\n"},
        "context=4",
    ),
    "TRL: reward modelling": (f"python examples/scripts/reward_modeling.py {QWEN}", {}, "objective=reward"),
    "TRL: the reference is computed first": (
        f"trl dpo {QWEN} --precompute_ref_log_probs",
        {},
        "objective=dpo reference=false",
    ),
    "TRL: adapters on a base in fp32": (f"trl sft {QWEN} --use_peft", {}, "wide_base=true precision=bf16-mixed"),
    "TRL: adapters and whole matrices": (
        f"trl sft {QWEN} --use_peft --lora_modules_to_save embed_tokens lm_head",
        {},
        "saved_modules=embed_tokens,lm_head",
    ),
    "TRL: DoRA": (f"trl sft {QWEN} --use_peft --use_dora", {}, "dora=true method=lora"),
    "8 bits by the model's name": (
        f"python examples/scripts/sft.py --use_peft {QWEN.replace('7B', '7B-Instruct-GPTQ-Int8')}",
        {},
        "method=int8-lora quantisation=8bit",
    ),
    "Unsloth: how it saves is not how it loads": (
        "python unsloth-cli.py --model_name org/model --quantization q4_k_m",
        {},
        "method=lora checkpointing=true offloads_activations=true lora_rank=16",
    ),
    "Unsloth: its command loads 4 bits": ("unsloth train --model org/model", {}, "method=qlora lora_rank=64"),
    "TRL: RLOO has a reference model": (f"trl rloo {QWEN}", {}, "objective=grpo reference=true"),
    "context parallelism by accelerate": (
        f"accelerate launch --use_fsdp --parallelism_config_cp_size 4 examples/scripts/sft.py {QWEN}",
        {},
        "context=4 strategy=fsdp-full",
    ),
    "tensor parallelism by accelerate's file": (
        f"accelerate launch --config_file a.yaml examples/scripts/sft.py {QWEN}",
        {"a.yaml": "num_processes: 8\nparallelism_config:\n  parallelism_config_tp_size: 4\n"},
        "tensor=4 processes=8",
    ),
    "LLaMA-Factory: only its own flag turns checkpointing off": (
        "llamafactory-cli train a.yaml gradient_checkpointing=false",
        {"a.yaml": FACTORY},
        "checkpointing=true",
    ),
    "LLaMA-Factory: its own flag for checkpointing": (
        "llamafactory-cli train a.yaml",
        {"a.yaml": FACTORY + "disable_gradient_checkpointing: true\n"},
        "checkpointing=false",
    ),
    "transformers: the file of FSDP": (
        f"{SFT} --fsdp full_shard --fsdp_config f.json",
        {"f.json": '{"offload_params": true}'},
        "strategy=fsdp-full offload=all",
    ),
}
REFUSED = {
    "Megatron-LM: experts in a latent space": (
        f"{MEGATRON} --num-experts 8 --moe-latent-size 1024",
        {},
        "moe-latent-size",
    ),
    "a script with a stage of its own": (f"{CHAT} --zero_stage 3", {}, "zero_stage"),
    "a script with adapters of its own": (f"{CHAT} --lora_dim 128", {}, "lora_dim"),
    "full fine-tuning of 4-bit weights": ("trl sft --model_name_or_path TheBloke/Llama-2-7B-GPTQ", {}, "only adapters"),
    "axolotl: a plugin": (
        "axolotl train a.yaml",
        {"a.yaml": AXOLOTL + "plugins: [x.SpectrumPlugin]\n"},
        "SpectrumPlugin",
    ),
    "LLaMA-Factory: Unsloth": ("llamafactory-cli train a.yaml", {"a.yaml": FACTORY + "use_unsloth: true\n"}, "model"),
    "LLaMA-Factory v1": ("llamafactory-cli train a.yaml", {"a.yaml": "model: org/model\nmodel_class: llm\n"}, "v1"),
    "ms-swift: layers on several GPUs": (
        "CUDA_VISIBLE_DEVICES=0,1 swift sft --model Qwen/Qwen2.5-7B --max_length 2048",
        {},
        "NPROC_PER_NODE",
    ),
    "ms-swift: device_map": ("swift sft --model Qwen/Qwen2.5-7B --max_length 9 --device_map auto", {}, "one by one"),
    "ms-swift: Unsloth": ("swift sft --model Qwen/Qwen2.5-7B --max_length 9 --tuner_backend unsloth", {}, "kernels"),
    "ms-swift: Megatron": ("megatron rlhf --load Qwen2.5-7B-mcore --max_length 9", {}, "not supervised"),
    "a script with Unsloth": ("python train_unsloth.py --model_name org/model --max_seq_length 9", {}, "Unsloth"),
    "torchtitan": ("torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file c.toml", {}, "torchtitan"),
    "TRL: a missing file of accelerate": (f"trl sft {QWEN} --accelerate_config my.yaml", {}, "was not found"),
    "transformers: a missing file of FSDP": (
        f"{SFT} --fsdp full_shard --fsdp_config f.json",
        {},
        "was not found",
    ),
    "LLaVA: only the projector": (
        f"deepspeed llava/train/train_mem.py {QWEN} --model_max_length 2048 --tune_mm_mlp_adapter True",
        {},
        "which weights",
    ),
    "replicas of shards": (
        f"accelerate launch --use_fsdp --parallelism_config_dp_replicate_size 2 examples/scripts/sft.py {QWEN}",
        {},
        "divides the model or the samples",
    ),
    "a reward model beside the policy": (
        f"trl grpo {QWEN} --reward_model_name_or_path org/reward",
        {},
        "adds another one",
    ),
    "a fraction that is none": (
        f"trl grpo {QWEN} --use_vllm --vllm_gpu_memory_utilization 30",
        {},
        "expected a fraction below 1",
    ),
    "an objective of another name": (f"python examples/scripts/online_dpo.py {QWEN}", {}, "not supervised"),
    "another objective in the script's name": (f"torchrun train_simpo2_8k.py {QWEN}", {}, "not supervised"),
    "another objective in the module's name": (
        f"deepspeed --module openrlhf.cli.train_ppo {QWEN}",
        {},
        "not supervised",
    ),
    "arguments of the model that are not JSON": (f"trl sft {QWEN} --model_init_kwargs load_in_4bit", {}, "not a JSON"),
    "a strategy that does not exist": (f"{SFT} --fsdp full_shrad", {}, "not a sharding strategy"),
    "FSDP's arguments that are not JSON": (f"{SFT} --fsdp full_shard --fsdp_config {{offload}}", {}, "not a JSON"),
    "Qwen2.5-VL: parts that are trained": (
        f"torchrun train_qwen.py {QWEN} --model_max_length 512 --tune_mm_llm False --tune_mm_mlp True",
        {},
        "apart from the rest",
    ),
    "8-bit Adam by a flag of a script": (
        f"python train.py {QWEN} --max_seq_length 512 --use_8bit_adam",
        {},
        "may change memory",
    ),
    "a file that is not read": (f"python train.py my.conf {QWEN} --max_seq_length 512", {}, "may set any flag"),
    "a file that is missing": (
        f"python train.py --config my.yaml {QWEN} --max_seq_length 512",
        {},
        "was not found",
    ),
    "fms-hf-tuning: a flag beside the JSON has no effect": (
        "export SFT_TRAINER_CONFIG_JSON_PATH=/config/tune.json; python -m tuning.sft_trainer --peft_method lora",
        {"/config/tune.json": '{"model_name_or_path": "org/model", "max_seq_length": 2048}'},
        "has no effect",
    ),
    "fms-hf-tuning: fused adapters": (
        f"python -m tuning.sft_trainer {QWEN} --peft_method lora --fused_lora auto_gptq true",
        {},
        "shape of the adapters",
    ),
}
WARNED = {
    "FP8 by accelerate": (
        f"accelerate launch --mixed_precision fp8 examples/scripts/sft.py {QWEN} --max_length 512",
        "FP8",
    ),
    "fms-hf-tuning: fused kernels": (
        f"python -m tuning.sft_trainer {QWEN} --fast_kernels True True True",
        "fast_kernels",
    ),
    "OpenRLHF: Liger's kernels, whose fused loss it does not use": (
        f"{OPENRLHF} --use_liger_kernel",
        "use_liger_kernel",
    ),
    "Megatron-LM: kernels that are not fused": (f"{MEGATRON} --no-bias-swiglu-fusion", "no-bias-swiglu-fusion"),
}


def judged(script: str, files: dict[str, str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Return the facts of a line, why it is refused, and its warnings."""
    contents = {path: text.encode() for path, text in files.items()}
    parsed = parse_launch(["bash", "-c"], [script], {}, contents.get)
    assert parsed.launch is not None, parsed.diagnostics
    review = review_flags(parsed.launch, TABLE)
    facts = {**parsed.launch.defaults, **parsed.launch.facts}
    refused = [one.message for one in (*parsed.diagnostics, *parsed.launch.unresolved, *review.refused)]
    return {name: fact.value for name, fact in facts.items()}, refused, [one.message for one in review.warnings]


@pytest.mark.parametrize("name", READ)
def test_it_is_read(name: str) -> None:
    script, files, expected = READ[name]
    facts, _, _ = judged(script, files)
    wanted = dict(word.split("=") for word in expected.split())
    assert {key: facts.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    script, files, said = REFUSED[name]
    _, refused, _ = judged(script, files)
    assert any(said in message for message in refused), refused


@pytest.mark.parametrize("name", WARNED)
def test_it_is_warned_about(name: str) -> None:
    script, said = WARNED[name]
    _, _, warnings = judged(script, {"a.yaml": AXOLOTL})
    assert any(said in message for message in warnings), warnings
