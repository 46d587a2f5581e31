"""Filters are programs that git runs to compare a file with its blob; none of them runs for us."""

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.objects import text_of
from reconciler.adapters.git.running import Running

_QUESTION = ("config", "--null", "--get-regexp", r"^(filter\..*|core\.excludesfile)$")
_NONE = 1  # how `git config` says that nothing matches


def ask_filters(git: Git) -> Running:
    """Let git say which filters anybody has configured, and what the user ignores everywhere."""
    return Running(git, *_QUESTION, as_user=True)


def without_filters(git: Git, asked: Running | None = None) -> Git:
    """Return git with every configured filter switched off, and with what the user ignores everywhere."""
    settings: dict[str, str] = {}
    asked = asked or ask_filters(git)
    for item in text_of(asked.output(accept=(0, _NONE))).split("\0"):
        name, _, value = item.partition("\n")
        if name == "core.excludesfile":
            home = git.environ.get("HOME", "~")
            settings[name] = home + value[1:] if value.startswith("~/") else value
        elif name:
            driver = name.rpartition(".")[0]
            settings |= {f"{driver}.{part}": "" for part in ("clean", "smudge", "process")}
            settings[f"{driver}.required"] = "false"
    return git.with_config(*settings.items())
