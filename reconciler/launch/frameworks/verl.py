"""verl: https://github.com/volcengine/verl (`verl/trainer/config/ppo_trainer.yaml`, `sft_trainer.yaml`)."""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction
from reconciler.launch.frameworks.rollout import read_rollout
from reconciler.launch.settings import Setting, is_true, parse_boolean

_ACTOR, _MODEL, _ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.model.", "actor_rollout_ref.rollout."
_HINT = "exclude the job from sizing, and set its number of GPUs"


def read_words(extraction: Extraction) -> None:
    """Read `+name=value` words, which add a key that the configuration does not have."""
    for field in extraction.arguments.words:
        name, separator, text = field.text.partition("=")
        if separator and name.startswith("+"):
            extraction.script.add_word(name.lstrip("+"), text, field)


def read_ppo(extraction: Extraction) -> None:
    """Read the policy. The reference model is always in host memory; the engine frees its memory while it trains."""
    script = extraction.script
    estimator = script.find(("algorithm.adv_estimator",))
    if is_true(script.find(("reward_model.enable",))) or script.text("config_name"):
        extraction.reject("method", "a reward model, or another configuration, is not in the memory model", None, _HINT)
        return
    extraction.facts["objective"] = Fact(value="grpo", snippet=extraction.invocation.name)
    read_rollout(extraction)
    extraction.discard("prompt")  # the logits of all tokens exist
    if script.text(f"{_ROLLOUT}name") == "hf":
        extraction.set_framework_default("generates", "true")
    elif not script.has(f"{_ROLLOUT}name"):
        extraction.discard("generates")
        setting = extraction.resolve("rollout", script.find((f"{_ROLLOUT}gpu_memory_utilization",)))
        extraction.facts["rollout"] = Fact(value=setting.text, snippet="") if setting else Fact(value="0.5", snippet="")
    if (free := script.find((f"{_ROLLOUT}free_cache_engine",))) is None or parse_boolean(free.text) is not False:
        extraction.set_framework_default("rollout_sleeps", "true")
    if all(is_true(script.find((f"{_ACTOR}fsdp_config.{name}_offload",))) for name in ("param", "optimizer")):
        extraction.facts["rollout_alone"] = Fact(value="true", snippet="")
    _read_adapters(extraction, _MODEL)
    if estimator is None or estimator.text == "gae":
        _read_critic(extraction, estimator)
    _read_tokens(extraction)


def _read_critic(extraction: Extraction, estimator: Setting | None) -> None:
    """Read the value model, which is on the GPU unless it is offloaded between its updates. It has its own adapters."""
    script = extraction.script
    path = script.find(("critic.model.path",))
    rank = script.find(("critic.model.lora_rank",))
    has_adapters = rank is not None and rank.text not in {"0", ""}
    if path is None or has_adapters != ("lora_rank" in extraction.facts):
        span = None if estimator is None else estimator.fact.span
        message = "without `critic.model.path`, the value model is verl's own default"
        if path is not None:
            message = "a policy and a value model of which only one has adapters are not in the memory model"
        extraction.reject("method", message, span, _HINT)
        return
    if path.text != script.text(f"{_MODEL}path"):
        extraction.add_text("value_model", path)
        batch = script.find(("critic.ppo_micro_batch_size_per_gpu",))
        if batch is not None and batch.text != script.text(f"{_ACTOR}ppo_micro_batch_size_per_gpu"):
            extraction.mark_uncertain(batch, "is another batch than the policy's, whose size is counted for both")
        return
    names = ("critic.model.fsdp_config.param_offload", "critic.model.fsdp_config.optimizer_offload")
    if not all(is_true(script.find((name,))) for name in names):
        extraction.facts["critic"] = Fact(value="true", snippet=path.fact.snippet, span=path.fact.span)


def _read_adapters(extraction: Extraction, prefix: str) -> None:
    rank = extraction.script.find((f"{prefix}lora_rank",))
    if rank is not None and rank.text not in {"0", ""} and extraction.add_number("lora_rank", rank) is not None:
        extraction.add("method", rank, "lora")
        targets = extraction.script.find((f"{prefix}target_modules",))
        if targets is not None:
            extraction.add("lora_targets", targets, targets.text.strip("[]").replace(" ", ""))


def _read_tokens(extraction: Extraction) -> None:
    """Read a step of so many tokens instead of so many samples."""
    if is_true(extraction.script.find((f"{_ACTOR}use_dynamic_bsz",))):
        tokens = extraction.script.find((f"{_ACTOR}ppo_max_token_len_per_gpu",))
        extraction.discard("batch")
        extraction.facts["batch"] = Fact(value="1", snippet="")
        extraction.add_number("sequence", tokens)
        if tokens is None:
            extraction.facts["sequence"] = Fact(value="16384", snippet="")


def read_processes(extraction: Extraction) -> None:
    """Read the GPUs of the trainer, and shard fully."""
    script = extraction.script
    for name in ("processes", "machines"):
        extraction.discard(name)
    per_node, nodes = script.find(("trainer.n_gpus_per_node",)), script.find(("trainer.nnodes",))
    each = extraction.add_number("processes", per_node) or 8
    machines = extraction.add_number("machines", nodes) or 1
    if per_node is not None and "processes" in extraction.facts:
        extraction.add("processes", per_node, str(each * machines))
    extraction.set_framework_default("processes", str(8 * machines))
    extraction.set_framework_default("machines", "1")
    strategy = script.find((f"{_ACTOR}strategy",))
    if strategy is not None and strategy.text not in {"fsdp", "fsdp2"}:
        extraction.reject("strategy", f"`{strategy.fact.snippet}` is not modelled", strategy.fact.span, _HINT)
    extraction.set_framework_default("strategy", "fsdp-full")


def complete(extraction: Extraction) -> None:
    """Divide the answers of an update (`ppo_mini_batch_size` prompts, each `n` times) into accumulation steps."""
    script = extraction.script
    of_all = script.find((f"{_ACTOR}ppo_micro_batch_size",))  # before 0.3
    if of_all is not None and "batch" not in extraction.facts and (whole := extraction.add_number("batch", of_all)):
        extraction.add("batch", of_all, str(max(1, whole // (extraction.number("processes") or 1))))
    counts = [script.text(f"{_ACTOR}ppo_mini_batch_size") or "256", script.text(f"{_ROLLOUT}n") or "1"]
    batch, processes = extraction.number("batch"), extraction.number("processes")
    if not batch or not processes or not all(text.isdecimal() for text in counts):
        return
    answers = int(counts[0]) * int(counts[1])
    if answers % (batch * processes) == 0:
        origin = f"{answers} answers over {processes} x {batch}"
        extraction.facts["accumulation"] = Fact(value=str(answers // (batch * processes)), snippet="", origin=origin)


def read_sft(extraction: Extraction) -> None:
    """Read the adapters and the offload of the SFT trainer, which shards fully."""
    _read_adapters(extraction, "model.")
    if is_true(offload := extraction.script.find(("model.fsdp_config.cpu_offload",))) and offload is not None:
        extraction.add("offload", offload, "all")
    extraction.set_framework_default("strategy", "fsdp-full")
