"""PPO, REINFORCE and GRPO of OpenRLHF with Ray: `openrlhf/cli/train_ppo_ray.py` of 0.5 to 0.11.

Since 0.10, the names of flags have dots (`--actor.num_nodes` for `--actor_num_nodes`).
"""

from reconciler.launch.facts import Fact
from reconciler.launch.framework import Extraction, Names
from reconciler.launch.frameworks.openrlhf import mark_kernels, read_sharding
from reconciler.launch.frameworks.rollout import add_fraction
from reconciler.launch.settings import is_true

_HINT = "exclude the job from sizing, and set its number of GPUs"
_GROUPS = ("ref", "critic", "reward")
_REMOTE = ("remote_rm_url", "reward.remote_url", "agent_func_path", "train.agent_func_path")
_POLICY = ("pretrain", "actor.model_name_or_path")
_UNCERTAIN = {
    ("enable_ema", "train.enable_ema"): "keeps an average of the weights, in host memory where DeepSpeed supports it",
}


def _number(extraction: Extraction, names: Names, default: int) -> int | None:
    """Return a number of the line; None if it is unknown, which then rejects the line."""
    setting = extraction.resolve("processes", extraction.script.find(names))
    if setting is None:
        return None if "processes" in extraction.unresolved else default
    if setting.text.isascii() and setting.text.isdecimal() and len(setting.text) < 6:  # noqa: PLR2004 - any cluster
        return int(setting.text)
    extraction.reject("processes", f"`{setting.fact.snippet}`: expected a number", setting.fact.span)
    return None


def _gpus(extraction: Extraction, group: str) -> int | None:
    """Return the GPUs of a group of Ray actors."""
    nodes = _number(extraction, (f"{group}_num_nodes", f"{group}.num_nodes"), 1)
    each = _number(extraction, (f"{group}_num_gpus_per_node", f"{group}.num_gpus_per_node"), 8)
    return None if nodes is None or each is None else nodes * each


def read_groups(extraction: Extraction) -> None:
    """Read the GPUs, and the stage of ZeRO. All groups share the same GPUs, or the line is rejected."""
    read_sharding(extraction)
    script, found = extraction.script, [_gpus(extraction, group) for group in ("actor", *_GROUPS)]
    engines = _number(extraction, ("vllm_num_engines", "vllm.num_engines"), 0)
    ways = _number(extraction, ("vllm_tensor_parallel_size", "vllm.tensor_parallel_size"), 1)
    shared = script.find(("colocate_all_models", "train.colocate_all"))
    apart = script.find(("async_train", "train.async_enable"))
    script.find(("colocate_actor_ref", "train.colocate_actor_ref"))
    script.find(("colocate_critic_reward", "train.colocate_critic_reward"))
    if engines is None or ways is None or None in found:
        return
    actor = found[0]
    machines = script.find(("actor_num_nodes", "actor.num_nodes"))
    count = script.find(("actor_num_gpus_per_node", "actor.num_gpus_per_node"))
    problem, named = "", shared
    if is_true(apart):
        problem, named = "the engines are on GPUs of their own, which differ from the others", apart
    elif not is_true(shared):
        problem = "the groups of actor, critic, reference, reward and engines are on GPUs of their own, which differ"
    elif not engines:
        problem = "answers are generated without vLLM, which is not modelled"
    elif engines * ways != actor:
        problem = f"{engines} engines of {ways} GPUs are not the {actor} GPUs of the actor"
    else:
        used = [(group, gpus) for group, gpus in zip(_GROUPS, found[1:], strict=True) if _exists(extraction, group)]
        other = next((group for group, gpus in used if gpus != actor), "")
        problem = f"the group `{other}` does not have the {actor} GPUs of the actor" if other else ""
    if problem:
        hint = "set --colocate_all_models and the same number of GPUs for all, or " + _HINT
        words = "" if named is None else f"`{named.fact.snippet}`: "
        extraction.reject("processes", words + problem, None if named is None else named.fact.span, hint)
        return
    for name in ("processes", "machines"):
        extraction.discard(name)
    extraction.set_framework_default("processes", str(actor))
    extraction.set_framework_default("machines", "1")
    extraction.add_number("machines", machines)
    if count is not None:
        extraction.add("processes", count, str(actor))


def _exists(extraction: Extraction, group: str) -> bool:
    if group == "ref":
        return _holds_reference(extraction)
    return _estimates_values(extraction) if group == "critic" else extraction.script.find(_REMOTE) is None


def _estimates_values(extraction: Extraction) -> bool:
    estimator = extraction.script.find(("advantage_estimator", "algo.advantage.estimator"))
    return estimator is None or estimator.text == "gae"


def _holds_reference(extraction: Extraction) -> bool:
    kl = extraction.script.find(("init_kl_coef", "algo.kl.init_coef"))
    try:
        return kl is None or float(kl.text) > 0
    except ValueError:
        return True


def read_models(extraction: Extraction) -> None:
    """Read the models beside the policy, and the engine. Frozen models with `offload` are in host memory."""
    script = extraction.script
    both = is_true(script.find(("ref_reward_offload",)))
    remote = script.find(_REMOTE) is not None
    reward = script.find(("reward_pretrain", "reward.model_name_or_path"))
    if not remote and (reward is None or "," in reward.text):
        message = "needs one --reward_pretrain, or --remote_rm_url" if reward is None else f"`{reward.fact.snippet}`"
        extraction.reject("method", message, None if reward is None else reward.fact.span, _HINT)
    if not remote and not both and not is_true(script.find(("reward.offload",))):
        extraction.add_text("reward_model", reward)
    if _holds_reference(extraction) and not both and not is_true(script.find(("ref.offload",))):
        extraction.set_default("reference_model", "policy", "a group of its own")
    if _estimates_values(extraction):
        critic = script.find(("critic_pretrain", "critic.model_name_or_path"))
        extraction.add_text("value_model", critic or (script.find(_POLICY) if remote else reward))
    add_fraction(extraction, script.find(("vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization")), "0.95")
    _add_switch(extraction, "rollout_sleeps", ("vllm_enable_sleep", "vllm.enable_sleep"))
    _add_switch(extraction, "rollout_sheds", ("deepspeed_enable_sleep", "ds.enable_sleep"))
    extraction.add_number("rollout_batch", script.find(("micro_rollout_batch_size", "rollout.micro_batch_size")))
    extraction.set_framework_default("rollout_batch", "8")
    _judge(extraction)


def _add_switch(extraction: Extraction, fact: str, names: Names) -> None:
    setting = extraction.script.find(names)
    if setting is not None and is_true(setting):
        extraction.add(fact, setting, "true")


def _judge(extraction: Extraction) -> None:
    mark_kernels(extraction)
    for names, effect in _UNCERTAIN.items():
        setting = extraction.script.find(names)
        if setting is not None and is_true(setting):
            extraction.mark_uncertain(setting, effect)
    for name in ("actor.optim", "critic.optim"):
        setting = extraction.script.find((name,))
        if setting is not None and setting.text != "adam":
            message = f"`{setting.fact.snippet}`: of several optimizers, only AdamW is modelled"
            extraction.reject("optimizer", message, setting.fact.span, _HINT)


def complete(extraction: Extraction) -> None:
    """Read the tokens of prompt and answer, and the steps of an update."""
    script = extraction.script
    prompt, answer = (_length(extraction, name) for name in ("prompt_max_len", "generate_max_len"))
    whole = script.find(("max_len", "data.max_len"))
    script.find(("rollout.max_new_tokens",))
    if whole is not None:
        extraction.add_number("sequence", whole)
    elif prompt and answer:
        extraction.facts["sequence"] = Fact(value=str(prompt + answer), snippet="", origin="prompt and answer")
    if is_true(script.find(("use_dynamic_batch", "train.dynamic_batch_enable"))):
        _read_tokens(extraction)
    batch, processes = extraction.number("batch"), extraction.number("processes")
    update = _number(extraction, ("train_batch_size", "train.batch_size"), 128)
    group = (extraction.number("context") or 1) * (extraction.number("tensor") or 1)
    if batch and processes and update and update * group % (batch * processes) == 0:
        steps = update * group // (batch * processes)
        origin = f"a batch of {update} over {processes} x {batch}"
        extraction.facts["accumulation"] = Fact(value=str(steps), snippet="", origin=origin)


def _length(extraction: Extraction, name: str) -> int | None:
    setting = extraction.resolve("sequence", extraction.script.find((name,)))
    if setting is None:
        return None if "sequence" in extraction.unresolved else 1024
    return int(setting.text) if setting.text.isascii() and setting.text.isdecimal() else None


def _read_tokens(extraction: Extraction) -> None:
    """Read steps of so many tokens instead of so many samples."""
    train = _number(extraction, ("train_max_tokens_per_gpu", "train.max_tokens_per_gpu"), 16192) or 0
    tokens = max(train, _number(extraction, ("rollout_max_tokens_per_gpu", "rollout.max_tokens_per_gpu"), 0) or 0)
    for name in ("batch", "sequence", "rollout_batch"):
        extraction.discard(name)
    origin = "tokens of a step"
    extraction.facts["batch"] = extraction.facts["rollout_batch"] = Fact(value="1", snippet="", origin=origin)
    extraction.facts["sequence"] = Fact(value=str(tokens), snippet="", origin=origin)
