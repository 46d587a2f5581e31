"""The configurations that torchtune 0.6.1 ships (`recipes/configs`), which `tune run RECIPE --config NAME` names.

`tools/recipes.py` prints the rows. They hold what changes memory; false and empty values are left out.
"""

KEYS = {
    "c": "checkpointer.checkpoint_dir",
    "n": "tokenizer.max_seq_len",
    "b": "batch_size",
    "a": "gradient_accumulation_steps",
    "r": "model.lora_rank",
    "t": "model.lora_attn_modules",
    "m": "model.apply_lora_to_mlp",
    "h": "model.apply_lora_to_output",
    "k": "model._component_",
    "g": "model.use_dora",
    "o": "optimizer._component_",
    "f": "optimizer.fused",
    "w": "optimizer_in_bwd",
    "d": "dtype",
    "e": "enable_activation_checkpointing",
    "s": "enable_activation_offloading",
    "u": "fsdp_cpu_offload",
    "p": "tensor_parallel_dim",
    "x": "compile",
}
DEFAULTS = {"dtype": "bf16", "gradient_accumulation_steps": "1", "optimizer._component_": "torch.optim.AdamW"}

_TARGETS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "output_proj"}

ROWS = """
code_llama2/7B_full_low_memory c=CodeLlama-7b-hf b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true s=true
code_llama2/7B_lora_single_device c=CodeLlama-7b-hf b=2 a=8 r=8 t=qvo m=true f=true e=true
code_llama2/7B_qlora_single_device c=CodeLlama-7b-hf b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
gemma/2B_full c=gemma-2b b=2 f=true e=true
gemma/2B_lora c=gemma-2b b=4 r=64 t=qvo m=true f=true e=true
gemma/2B_lora_single_device c=gemma-2b b=4 a=8 r=64 t=qvo m=true f=true e=true
gemma/2B_qlora_single_device c=gemma-2b b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
gemma/7B_full c=gemma-7b b=1 f=true e=true
gemma/7B_lora c=gemma-7b b=4 r=64 t=qvo m=true f=true e=true
gemma/7B_lora_single_device c=gemma-7b b=8 a=8 r=8 t=qvo m=true f=true e=true
gemma/7B_qlora_single_device c=gemma-7b b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
gemma2/27B_full c=gemma-2-27b b=1 f=true e=true
gemma2/27B_lora c=gemma-2-27b b=4 r=64 t=qvo m=true f=true e=true
gemma2/27B_lora_single_device c=gemma-2-27b b=2 a=8 r=8 t=qvo m=true f=true e=true
gemma2/27B_qlora_single_device c=gemma-2-27b b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
gemma2/2B_full c=gemma-2-2b b=2 f=true e=true
gemma2/2B_lora c=gemma-2-2b b=4 r=64 t=qvo m=true f=true e=true
gemma2/2B_lora_single_device c=gemma-2-2b b=8 a=8 r=64 t=qvo m=true f=true e=true
gemma2/2B_qlora_single_device c=gemma-2-2b b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
gemma2/9B_full c=gemma-2-9b b=1 f=true e=true
gemma2/9B_lora c=gemma-2-9b b=4 r=64 t=qvo m=true f=true e=true
gemma2/9B_lora_single_device c=gemma-2-9b b=8 a=8 r=8 t=qvo m=true f=true e=true
gemma2/9B_qlora_single_device c=gemma-2-9b b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
llama2/13B_full c=Llama-2-13b-hf b=2 f=true e=true
llama2/13B_lora c=Llama-2-13b-hf b=2 a=8 r=8 t=qvo m=true h=true f=true
llama2/13B_qlora_single_device c=Llama-2-13b-hf b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
llama2/70B_lora c=Llama-2-70b-hf b=2 r=16 t=qvo m=true f=true e=true
llama2/70B_qlora c=Llama-2-70b-hf b=2 r=16 t=qvo m=true k=qlora f=true e=true
llama2/7B_full c=Llama-2-7b-hf b=2 f=true e=true
llama2/7B_full_low_memory c=Llama-2-7b-hf b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true s=true
llama2/7B_lora c=Llama-2-7b-hf b=2 a=8 r=8 t=qvo m=true f=true
llama2/7B_lora_dpo c=Llama-2-7b-hf n=1024 b=4 a=8 r=8 t=qvo m=true f=true e=true
llama2/7B_lora_dpo_single_device c=Llama-2-7b-hf n=1024 b=4 a=8 r=8 t=qvo m=true f=true e=true
llama2/7B_lora_single_device c=Llama-2-7b-hf b=2 a=8 r=8 t=qvo m=true f=true e=true
llama2/7B_qat_full c=Llama-2-7b-hf b=2 f=true e=true
llama2/7B_qlora c=Llama-2-7b-hf b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
llama2/7B_qlora_single_device c=Llama-2-7b-hf b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
llama3/70B_full c=Meta-Llama-3-70B-Instruct b=2 e=true u=true p=1
llama3/70B_lora c=Meta-Llama-3-70B-Instruct b=2 r=16 t=qvo m=true f=true e=true
llama3/8B_dora c=Meta-Llama-3-8B-Instruct b=2 r=8 t=qvo m=true g=true f=true
llama3/8B_dora_single_device c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true g=true f=true e=true
llama3/8B_full c=Meta-Llama-3-8B-Instruct b=2 f=true e=true
llama3/8B_full_single_device c=Meta-Llama-3-8B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW8bit w=true e=true
llama3/8B_lora c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
llama3/8B_lora_single_device c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
llama3/8B_qat_full c=Meta-Llama-3-8B-Instruct b=2 f=true e=true
llama3/8B_qat_lora c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
llama3/8B_qdora_single_device c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true g=true f=true e=true
llama3/8B_qlora_single_device c=Meta-Llama-3-8B-Instruct b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
llama3_1/405B_qlora c=Meta-Llama-3.1-405B-Instruct b=1 a=8 r=16 t=qvo m=true k=qlora f=true e=true
llama3_1/70B_full c=Meta-Llama-3.1-70B-Instruct b=2 e=true u=true p=1
llama3_1/70B_lora c=Meta-Llama-3.1-70B-Instruct b=2 r=16 t=qvo m=true f=true e=true
llama3_1/8B_full c=Meta-Llama-3.1-8B-Instruct b=2 f=true e=true
llama3_1/8B_full_dpo c=Meta-Llama-3.1-8B-Instruct n=1024 b=4 a=8 f=true e=true
llama3_1/8B_full_single_device c=Meta-Llama-3.1-8B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW8bit w=true e=true
llama3_1/8B_lora c=Meta-Llama-3.1-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
llama3_1/8B_lora_dpo c=Meta-Llama-3.1-8B-Instruct n=1024 b=4 a=8 r=8 t=qvo m=true f=true e=true
llama3_1/8B_lora_dpo_single_device c=Meta-Llama-3.1-8B-Instruct n=1024 b=4 a=8 r=8 t=qvo m=true f=true e=true
llama3_1/8B_lora_single_device c=Meta-Llama-3.1-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
llama3_1/8B_qat_lora c=Meta-Llama-3.1-8B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
llama3_1/8B_qlora_single_device c=Meta-Llama-3.1-8B-Instruct b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
llama3_2/1B_full c=Llama-3.2-1B-Instruct b=4 a=8 f=true
llama3_2/1B_full_single_device c=Llama-3.2-1B-Instruct b=4 o=bitsandbytes.optim.PagedAdamW8bit w=true
llama3_2/1B_lora c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/1B_lora_single_device c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/1B_qat_lora c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/1B_qlora_single_device c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true k=qlora f=true
llama3_2/3B_full c=Llama-3.2-3B-Instruct b=4 a=8 f=true e=true
llama3_2/3B_full_single_device c=Llama-3.2-3B-Instruct b=4 o=bitsandbytes.optim.PagedAdamW8bit w=true e=true
llama3_2/3B_lora c=Llama-3.2-3B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/3B_lora_single_device c=Llama-3.2-3B-Instruct b=4 a=8 r=64 t=qvo m=true f=true e=true
llama3_2/3B_qat_lora c=Llama-3.2-3B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/3B_qlora_single_device c=Llama-3.2-3B-Instruct b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
llama3_2/8B_to_1B_KD_lora_distributed c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_2/8B_to_1B_KD_lora_single_device c=Llama-3.2-1B-Instruct b=4 a=8 r=64 t=qvo m=true f=true
llama3_3/70B_full c=Llama-3.3-70B-Instruct b=2 e=true u=true p=1
llama3_3/70B_full_multinode c=Llama-3.3-70B-Instruct n=1024 b=4 f=true e=true x=true
llama3_3/70B_lora c=Llama-3.3-70B-Instruct b=2 r=16 t=qvo m=true f=true e=true
llama3_3/70B_qlora c=Llama-3.3-70B-Instruct b=2 r=16 t=qvo m=true k=qlora f=true e=true
mistral/7B_full c=Mistral-7B-v0.1 b=2 f=true e=true
mistral/7B_full_low_memory c=Mistral-7B-v0.1 b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true s=true
mistral/7B_lora c=Mistral-7B-v0.1 b=4 r=64 t=qvo m=true h=true f=true e=true
mistral/7B_lora_single_device c=Mistral-7B-v0.1 b=4 a=8 r=64 t=qvo m=true h=true f=true e=true
mistral/7B_qlora_single_device c=Mistral-7B-v0.1 b=4 a=8 r=64 t=qvo m=true k=qlora f=true e=true
phi3/mini_full c=Phi-3-mini-4k-instruct b=2 a=8 f=true e=true
phi3/mini_full_low_memory c=Phi-3-mini-4k-instruct b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true s=true
phi3/mini_lora c=Phi-3-mini-4k-instruct b=2 a=8 r=8 t=qvo m=true f=true
phi3/mini_lora_single_device c=Phi-3-mini-4k-instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
phi3/mini_qlora_single_device c=Phi-3-mini-4k-instruct b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
phi4/14B_full c=phi-4 b=2 a=8 f=true e=true
phi4/14B_full_low_memory c=phi-4 b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true s=true
phi4/14B_lora c=phi-4 b=2 a=8 r=8 t=qvo m=true f=true
phi4/14B_lora_single_device c=phi-4 b=2 a=8 r=8 t=qvo m=true f=true e=true
phi4/14B_qlora_single_device c=phi-4 b=2 a=8 r=8 t=qvo m=true k=qlora f=true e=true
qwen2/0.5B_full c=Qwen2-0.5B-Instruct b=2 a=8 f=true
qwen2/0.5B_full_single_device c=Qwen2-0.5B-Instruct b=2 a=8 f=true e=true
qwen2/0.5B_lora c=Qwen2-0.5B-Instruct b=4 a=8 r=32 t=qvo m=true f=true e=true
qwen2/0.5B_lora_single_device c=Qwen2-0.5B-Instruct b=4 a=8 r=32 t=qvo m=true f=true e=true
qwen2/1.5B_full c=Qwen2-1.5B-Instruct b=2 f=true
qwen2/1.5B_full_single_device c=Qwen2-1.5B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true
qwen2/1.5B_lora c=Qwen2-1.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true e=true
qwen2/1.5B_lora_single_device c=Qwen2-1.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true e=true
qwen2/1.5_to_0.5B_KD_lora_distributed c=Qwen2-0.5B-Instruct b=8 a=8 r=32 t=qvo m=true
qwen2/1.5_to_0.5B_KD_lora_single_device c=Qwen2-0.5B-Instruct b=8 a=8 r=32 t=qvo m=true
qwen2/7B_full c=Qwen2-7B-Instruct b=2 a=8 f=true e=true
qwen2/7B_full_single_device c=Qwen2-7B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true
qwen2/7B_lora c=Qwen2-7B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
qwen2/7B_lora_single_device c=Qwen2-7B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
qwen2_5/0.5B_full c=Qwen2.5-0.5B-Instruct b=2 a=8 f=true
qwen2_5/0.5B_full_single_device c=Qwen2.5-0.5B-Instruct b=2 a=8 f=true
qwen2_5/0.5B_lora c=Qwen2.5-0.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true
qwen2_5/0.5B_lora_single_device c=Qwen2.5-0.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true
qwen2_5/1.5B_full c=Qwen2.5-1.5B-Instruct b=2 f=true e=true
qwen2_5/1.5B_full_single_device c=Qwen2.5-1.5B-Instruct b=4 o=bitsandbytes.optim.PagedAdamW w=true e=true
qwen2_5/1.5B_lora c=Qwen2.5-1.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true
qwen2_5/1.5B_lora_single_device c=Qwen2.5-1.5B-Instruct b=2 a=8 r=32 t=qvo m=true f=true
qwen2_5/14B_lora_single_device c=Qwen2.5-14B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
qwen2_5/32B_lora c=Qwen2.5-32B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
qwen2_5/3B_full c=Qwen2.5-3B-Instruct b=2 a=8 f=true e=true
qwen2_5/3B_full_single_device c=Qwen2.5-3B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true
qwen2_5/3B_lora c=Qwen2.5-3B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
qwen2_5/3B_lora_single_device c=Qwen2.5-3B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
qwen2_5/72B_lora c=Qwen2.5-72B-Instruct b=2 r=8 t=qvo m=true f=true e=true
qwen2_5/7B_full c=Qwen2.5-7B-Instruct b=2 a=8 f=true e=true
qwen2_5/7B_full_single_device c=Qwen2.5-7B-Instruct b=2 o=bitsandbytes.optim.PagedAdamW w=true e=true
qwen2_5/7B_lora c=Qwen2.5-7B-Instruct b=2 a=8 r=8 t=qvo m=true f=true
qwen2_5/7B_lora_single_device c=Qwen2.5-7B-Instruct b=2 a=8 r=8 t=qvo m=true f=true e=true
"""


def recipe_values(name: str) -> dict[str, str]:
    """Return the values of a shipped configuration by their keys; empty if there is none of that name."""
    row = next((line for line in ROWS.splitlines() if line.partition(" ")[0] == name), "")
    if not row:
        return {}
    values = {short: text for short, _, text in (word.partition("=") for word in row.split(" ")[1:])}
    if "t" in values:
        values["t"] = ",".join(_TARGETS[letter] for letter in values["t"])
    return DEFAULTS | {KEYS[short]: text for short, text in values.items()}
