"""Filters are programs that git runs to compare a file with its blob; none of them runs for us."""

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.objects import text_of


def without_filters(git: Git) -> Git:
    """Return git with every configured filter switched off, and with what the user ignores everywhere."""
    code, output, _ = git.as_user("config", "--null", "--get-regexp", r"^(filter\..*|core\.excludesfile)$")
    settings: dict[str, str] = {}
    for item in text_of(output).split("\0") if code == 0 else ():
        name, _, value = item.partition("\n")
        if name == "core.excludesfile":
            home = git.environ.get("HOME", "~")
            settings[name] = home + value[1:] if value.startswith("~/") else value
        elif name:
            driver = name.rpartition(".")[0]
            settings |= {f"{driver}.{part}": "" for part in ("clean", "smudge", "process")}
            settings[f"{driver}.required"] = "false"
    return git.with_config(*settings.items())
