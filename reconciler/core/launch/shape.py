"""How the processes are spread: their number, machines, sharding, offload, as the launcher and its files say."""

from collections.abc import Mapping

from msgspec.structs import replace

from reconciler.core.launch.dialects import Dialect
from reconciler.core.launch.facts import Fact, Launcher
from reconciler.core.launch.gathering import Gathering, truth
from reconciler.core.launch.launchers import Invocation
from reconciler.core.launch.settings import FileReader, Setting, Settings, read_file
from reconciler.core.launch.shell.variables import UNKNOWN

_SHARDING = {
    "1": "fsdp-full",
    "full_shard": "fsdp-full",
    "fully_shard": "fsdp-full",
    "true": "fsdp-full",
    "2": "fsdp-grad-op",
    "shard_grad_op": "fsdp-grad-op",
    "false": "fsdp-grad-op",
    "3": "ddp",
    "no_shard": "ddp",
    "4": "fsdp-hybrid",
    "hybrid_shard": "fsdp-hybrid",
    "5": "fsdp-hybrid",
    "hybrid_shard_zero2": "fsdp-hybrid",
}
"""Values of accelerate's `--fsdp_sharding_strategy` and `--fsdp_reshard_after_forward`, of transformers' `--fsdp`."""

_SHIPPED_ZERO = {f"zero{stage}{more}": str(stage) for stage in range(4) for more in ("", "_offload")}
"""DeepSpeed configurations that come with ms-swift, by the names that it takes for `--deepspeed`."""

_LAUNCHER_NUMBERS = ("processes", "machines")
_COMMAND_PROCESSES = {
    "llamafactory-cli": ("NPROC_PER_NODE", "NNODES"),
    "lmf": ("NPROC_PER_NODE", "NNODES"),
    "swift": ("NPROC_PER_NODE", "NNODES"),
}


class Shape:
    """Reads the launcher's side of a line into a gathering."""

    def __init__(  # noqa: PLR0917 - what a line is made of
        self,
        invocation: Invocation,
        dialect: Dialect,
        settings: Settings,
        script: Settings,
        gathering: Gathering,
        files: FileReader,
    ) -> None:
        self.invocation = invocation
        self.dialect = dialect
        self.settings = settings
        self.script = script
        self.gathering = gathering
        self.files = files
        self.defaults: dict[str, Fact] = {}

    def read(self, env: Mapping[str, str | None]) -> None:
        """Gather processes, machines, strategy, offload, and the launcher's precision."""
        if self.invocation.launcher is Launcher.ACCELERATE or self.settings.has("num_processes"):
            self._accelerate()
        elif self.invocation.launcher is Launcher.TORCHRUN or self.invocation.command == "tune run":
            self._per_node("nproc_per_node", "nnodes", env, "PET_NPROC_PER_NODE", "PET_NNODES")
        elif self.invocation.launcher is Launcher.DEEPSPEED:
            self._deepspeed(env)
        else:
            self._alone(env)
        self._strategy()
        for name in self.gathering.facts:
            self.gathering.unsure.pop(name, None)  # a flag says what a file that could not be read leaves open

    def _default(self, name: str, value: str, origin: str) -> None:
        if name not in self.gathering.facts and name not in self.gathering.unsure:
            self.defaults.setdefault(name, Fact(value=value, snippet="", origin=origin))

    def _accelerate(self) -> None:
        if (config := self.settings.find(("config_file",))) is not None:
            self._add_file(self.settings, config, "accelerate configuration")
        self.gathering.number("processes", self.settings.find(("num_processes",)))
        self.gathering.number("machines", self.settings.find(("num_machines",)))
        self._default("machines", "1", "default of accelerate launch")

    def _add_file(self, settings: Settings, config: Setting, what: str, prefix: str = "") -> None:
        values, diagnostic = read_file(config.text, self.files, what)
        if diagnostic is not None:
            placed = replace(diagnostic, span=config.fact.span)
            self.gathering.diagnostics.append(placed)
            self.gathering.unsure |= dict.fromkeys(
                ("strategy", "offload", *(() if prefix else _LAUNCHER_NUMBERS)), placed
            )
        settings.add_file({prefix + name: value for name, value in values.items()}, f"file {config.text}")

    def _per_node(self, each: str, nodes: str, env: Mapping[str, str | None], *variables: str) -> None:
        """Gather the number of processes in all: that of one node times the nodes."""
        gathering = self.gathering
        each_setting = self.settings.find((each,)) or from_env(env, variables[0])
        nodes_setting = self.settings.find((nodes,)) or from_env(env, variables[1])
        if nodes_setting is not None and ":" in nodes_setting.text:
            message = f"`{nodes_setting.fact.snippet}` is a range: the number of nodes may change while the job runs"
            gathering.refuse("machines", message, nodes_setting.fact.span, "give one number to have the job sized")
        else:
            gathering.number("machines", nodes_setting)
        self._default("machines", "1", f"default of {self.invocation.launcher.value}")
        count = gathering.number("processes", each_setting)
        machines = self._machines()
        if count is not None and machines is None:
            gathering.facts.pop("processes")
            gathering.unsure["processes"] = gathering.unsure["machines"]
        elif count is not None and machines is not None and machines > 1:
            gathering.facts["processes"] = replace(gathering.facts["processes"], value=str(count * machines))

    def _machines(self) -> int | None:
        fact = self.gathering.facts.get("machines") or self.defaults.get("machines")
        return int(fact.value) if fact is not None else None

    def _deepspeed(self, env: Mapping[str, str | None]) -> None:
        include = self.settings.find(("include", "i"))
        if include is not None and UNKNOWN not in include.text and include.text:
            hosts = include.text.split("@")
            if all(":" in host for host in hosts):
                count = sum(len(host.split(":")[1].split(",")) for host in hosts)
                self.gathering.facts["processes"] = replace(include.fact, value=str(count))
                self.gathering.facts["machines"] = replace(include.fact, value=str(len(hosts)))
                return
        self._per_node("num_gpus", "num_nodes", env, "", "")

    def _alone(self, env: Mapping[str, str | None]) -> None:
        """One process, unless the framework starts more by itself."""
        command = self.invocation.command
        if names := _COMMAND_PROCESSES.get(command):
            self._per_node("", "", env, *names)
        elif command == "litgpt":
            self._litgpt()
        elif command in {"axolotl", "trl"}:
            self.gathering.number("processes", self.script.find(("num_processes", "nproc_per_node")))
            self._default("machines", "1", f"default of {command}")
        else:
            self._default("processes", "1", "one process: no launcher on the line")
            self._default("machines", "1", "one process: no launcher on the line")

    def _litgpt(self) -> None:
        gathering = self.gathering
        devices = gathering.number("processes", self.script.find(("devices",)))
        machines = gathering.number("machines", self.script.find(("num_nodes",))) or 1
        self._default("processes", str(machines), "default of litgpt")
        self._default("machines", "1", "default of litgpt")
        if devices is not None and machines > 1:
            gathering.facts["processes"] = replace(gathering.facts["processes"], value=str(devices * machines))

    def _strategy(self) -> None:
        self._zero()
        if "strategy" not in self.gathering.facts:
            self._fsdp()
        self._own_sharding()
        self._default("strategy", "ddp", "no sharding on the line")
        self._default("offload", "none", "no offload on the line")

    def _own_sharding(self) -> None:
        """Frameworks that shard, and recompute then, without being told."""
        origin = f"default of {self.dialect.source}"
        facts = self.gathering.facts
        family = self.dialect.family
        if family == "torchtune" and "distributed" in self.invocation.name:
            self._default("strategy", "fsdp-full", origin)
        elif family == "litgpt" and "processes" in facts and facts["processes"].value != "1":
            self._default("strategy", "fsdp-full", origin)
            self._default("checkpointing", "true", origin)
        elif family == "llama-recipes":
            self._default("checkpointing", "true" if "strategy" in facts else "false", origin)
        offload = self.script.find(
            ("fsdp_cpu_offload", "fsdp_config.fsdp_offload_params", "fsdp_config.offload_params")
        )
        if offload is not None and truth(offload.text):
            self.gathering.text("offload", offload, "all")

    # DeepSpeed

    def _zero(self) -> None:
        places = (
            *((self.script, name) for name in ("deepspeed", "deepspeed_config")),
            *((self.settings, name) for name in ("deepspeed_config_file", "deepspeed_config.deepspeed_config_file")),
        )
        # A bare `--deepspeed` only turns it on; the file is then named elsewhere.
        named = (found for settings, name in places if (found := settings.find((name,))) is not None and found.text)
        config = next(named, None)
        used = self.settings.find(("use_deepspeed",)) or self.settings.find(("distributed_type",))
        if config is not None and UNKNOWN in config.text:
            self.gathering.known("strategy", config)
            return
        if config is not None and truth(config.text) is None:
            stage = self._zero_file(config)
        elif used is not None and (used.text.upper() == "DEEPSPEED" or truth(used.text)):
            stage = self._zero_flags(used)
        elif (stage := self.settings.find(("zero_stage",))) is None or not used:
            return
        self._take_stage(stage)

    def _zero_file(self, config: Setting) -> Setting | None:
        if self.dialect.name == "ms-swift" and (shipped := _SHIPPED_ZERO.get(config.text)):
            offloaded = "cpu" if config.text.endswith("_offload") else ""
            self._offload(config, offloaded, offloaded if shipped == "3" else "")
            return replace(config, text=shipped)
        self._add_file(self.script, config, "DeepSpeed configuration", "deepspeed.")
        names = ("optimizer", "param")
        devices = [self.script.text(f"deepspeed.zero_optimization.offload_{name}.device") for name in names]
        if truth(self.script.text("deepspeed.zero_optimization.cpu_offload") or "false"):
            devices[0] = "cpu"  # its name before DeepSpeed 0.3.16
        if "strategy" not in self.gathering.unsure:
            self._offload(config, *devices)
        stage = self.script.find(("deepspeed.zero_optimization.stage",))
        return stage if stage is not None else None

    def _zero_flags(self, used: Setting) -> Setting | None:
        prefix = "deepspeed_config."
        names = ("offload_optimizer_device", "offload_param_device")
        self._offload(used, *(self.settings.text(name, prefix + name) for name in names))
        stage = self.settings.find(("zero_stage", f"{prefix}zero_stage"))
        return stage if stage is not None else replace(used, text="2")  # accelerate's default stage

    def _offload(self, setting: Setting, optimizer: str, parameters: str) -> None:
        to_host = {"cpu", "nvme"}
        value = "all" if parameters in to_host else "optimizer" if optimizer in to_host else "none"
        self.gathering.facts["offload"] = replace(setting.fact, value=value)

    def _take_stage(self, stage: Setting | None) -> None:
        found = self.gathering.known("strategy", stage)
        if found is None:
            return
        if found.text in {"0", "1", "2", "3"}:
            value = f"zero-{found.text}" if found.text != "0" else "ddp"
            self.gathering.facts["strategy"] = replace(found.fact, value=value)
        else:
            self.gathering.refuse("strategy", f"`{found.fact.snippet}`: ZeRO has stages 0 to 3", found.fact.span)

    # FSDP

    def _fsdp(self) -> None:
        enabled = self.script.find(("enable_fsdp",))
        if enabled is not None and truth(enabled.text):
            hybrid = truth(self.script.text("hsdp") or "false")
            self.gathering.facts["strategy"] = replace(enabled.fact, value="fsdp-hybrid" if hybrid else "fsdp-full")
            return
        version = self.script.find(("fsdp_version",))
        if version is not None:
            resharding = self.script.find(
                ("fsdp_config.reshard_after_forward", "fsdp_config.fsdp_reshard_after_forward")
            )
            way = _SHARDING.get(resharding.text.lower()) if resharding is not None else "fsdp-full"
            self.gathering.text("strategy", resharding or version, way or "fsdp-full")
            return
        words = self.script.find(("fsdp",))
        if words is not None and words.text:
            self._fsdp_words(words)
            return
        used = self.settings.find(("use_fsdp",)) or self.settings.find(("distributed_type",))
        if used is None or not (used.text.upper() == "FSDP" or truth(used.text)):
            return
        prefix = "fsdp_config."
        names = ("fsdp_sharding_strategy", "fsdp_reshard_after_forward")
        sharding = self.settings.find((*names, *(prefix + name for name in names)))
        found = self.gathering.known("strategy", sharding)
        if sharding is None:
            self.gathering.facts["strategy"] = replace(used.fact, value="fsdp-full")
        elif found is not None and (value := _SHARDING.get(found.text.lower())):
            self.gathering.facts["strategy"] = replace(found.fact, value=value)
        elif found is not None:
            self.gathering.refuse("strategy", f"`{found.fact.snippet}` is no way of sharding", found.fact.span)
        offload = self.settings.find(("fsdp_offload_params", f"{prefix}fsdp_offload_params"))
        if offload is not None:
            self.gathering.facts["offload"] = replace(offload.fact, value="all" if truth(offload.text) else "none")

    def _fsdp_words(self, setting: Setting) -> None:
        """`--fsdp "full_shard auto_wrap offload"` of transformers; axolotl's list."""
        found = self.gathering.known("strategy", setting)
        if found is None:
            return
        words = " ".join((*found.texts, found.text)).replace(",", " ").split()
        value = next((_SHARDING[word] for word in words if word in _SHARDING), None)
        if value is not None:
            self.gathering.facts["strategy"] = replace(found.fact, value=value)
        if "offload" in words:
            self.gathering.facts["offload"] = replace(found.fact, value="all")


def from_env(env: Mapping[str, str | None], name: str) -> Setting | None:
    """Return a variable of the invocation program as a setting."""
    if not name or name not in env:
        return None
    value = env[name]
    fact = Fact(value=value or "", snippet=f"{name}={value}", origin=f"env {name}")
    if value is None:
        return Setting(UNKNOWN, fact, f"`{name}` is not known here")
    return Setting(value, fact)
