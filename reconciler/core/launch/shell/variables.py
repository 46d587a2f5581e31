"""What variables hold at one point of a script, with what is not known marked in the text itself."""

import re
from collections.abc import Mapping

from msgspec import Struct

UNKNOWN = "\ufdd0"
"""Stands for text that only the running shell would know. A Unicode noncharacter: no program writes it."""

UNKNOWN_WORDS = "\ufdd1"
"""Stands for any number of unknown words among the items of an array or a script's arguments."""

MAX_LENGTH = 1 << 17
"""Longest value that is followed: what the kernel takes as one argument (MAX_ARG_STRLEN, 32 pages)."""

_SET_WHERE_IT_RUNS = re.compile(
    r"(?:PET|KUBERNETES|TORCHELASTIC|SLURM|OMPI|PMI|NVIDIA|CUDA|NCCL|JOBSET|RAY|BASH)_\w+|MASTER_(?:ADDR|PORT)|WORLD_SIZE|LOCAL_WORLD_SIZE"
    r"|(?:LOCAL_|NODE_|GROUP_)?RANK|JOB_COMPLETION_INDEX|HOSTNAME|HOME|PATH|LD_LIBRARY_PATH|PYTHONPATH|PWD|OLDPWD|SHLVL"
    r"|USER|LOGNAME|SHELL|RANDOM|SRANDOM|SECONDS|EPOCH\w+|LINENO|UID|EUID|PPID|BASH\w*|IFS|OPT(?:IND|ARG)|REPLY|HOST(?:TYPE)?|_"
)
"""Names that shells, Kubernetes, container images and training operators set, whatever the job's YAML says."""


class ShellValue(Struct, frozen=True):
    """Text with UNKNOWN in it where it is not known (`reason`); `items` of an array."""

    text: str
    reason: str = ""
    items: tuple[str, ...] | None = None


def unknown(reason: str) -> ShellValue:
    """Return a value of which nothing is known."""
    return ShellValue(UNKNOWN, reason)


class Variables:
    """Names and values; `exported` names are seen by the programs that are started."""

    def __init__(
        self, values: dict[str, ShellValue], exported: set[str], arguments: tuple[str, ...], name: str
    ) -> None:
        self.values = values
        self.exported = exported
        self.arguments = arguments
        self.name = name

    @classmethod
    def from_env(cls, env: Mapping[str, str | None], arguments: tuple[str, ...] = (), name: str = "") -> "Variables":
        """Begin with a container's `env` (None: set from elsewhere) and the arguments behind the script."""
        values = {
            key: unknown(f"`{key}` comes from a reference (valueFrom)") if value is None else ShellValue(value, "")
            for key, value in env.items()
        }
        return cls(values, set(env), arguments, name)

    def copy(self) -> "Variables":
        """Return variables of their own for a subshell or a branch."""
        return Variables(dict(self.values), set(self.exported), self.arguments, self.name)

    def get(self, name: str) -> ShellValue | None:
        """Return a variable's value; None where it is not set as far as the script and `env` tell."""
        value = self.values.get(name)
        if value is not None:
            return value
        if _SET_WHERE_IT_RUNS.fullmatch(name):
            return unknown(f"`{name}` is set at run time")
        return None

    def set(self, name: str, value: ShellValue) -> None:
        """Set a variable; what is too long is no longer followed."""
        size = len(value.text) + sum(len(item) + 1 for item in value.items or ())
        self.values[name] = (
            value if size <= MAX_LENGTH else unknown(f"`{name}` is longer than {MAX_LENGTH:,} characters")
        )

    def environment(self) -> dict[str, str | None]:
        """Return what a program that is started now sees; None: not known."""
        known: dict[str, str | None] = {}
        for name in self.exported:
            value = self.values.get(name)
            if value is not None:
                known[name] = None if UNKNOWN in value.text else value.text
        return known

    def join(self, other: "Variables") -> None:
        """Forget what differs from `other`: either may have happened."""
        for name in self.values.keys() | other.values.keys():
            if self.values.get(name) != other.values.get(name):
                self.values[name] = unknown(f"`{name}` depends on a branch of the script")
        self.exported |= other.exported
        if self.arguments != other.arguments:
            self.arguments = (UNKNOWN_WORDS,)
