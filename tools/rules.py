"""Write what the shipped rules know of accelerators, from `core/devices`, and of kinds, from `pod_places`: `make docs`.

A policy file stands alone, so `policies/*/rule.yaml` repeat the expressions. A test fails if one is out of date.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from reconciler.core import devices
from tools.pod_places import joined, resource_rule, roles

_POLICIES = Path(__file__).resolve().parents[1] / "policies"
_INDENT = " " * 8
_OPERATORS = r"(?m)^(      # Kinds of operators.*\n)      - apiGroups:.*\n(?:        .*\n)+"
_VARIABLE = r"(?m)^(    - name: %s\n      expression: \|-\n)(?:        .*\n|\n)+"

GPUS = """\
variables.roles.map(group, group.map(r, {{'role': dyn(r), 'gpus': dyn(
  [r.template.?spec.?containers.orValue([]) +
     r.template.?spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue('') == 'Always')]
  .map(cs, [cs] + r.template.?spec.?initContainers.orValue([]).map(c, [c]))[0]
  .map(cs, cs.map(c,
    [c.?resources.?limits.orValue(c.?resources.?requests.orValue({{}}))].map(amounts,
      [amounts.filter(k, k.contains('/') && string(amounts[k]) != '0')].map(named, named.size() == 0 ? 0 :
        named.filter(k, {is_device}).map(k,
          k in [{shares}] ? 1 :
          k in [{percent}]
            ? (int(string(amounts[k])) + 99) / 100 : int(string(amounts[k]))).sum() +
        [{parts}]
        .filter(d, !(d[0] in named) && d.exists(p, p in named)).size())[0])[0]).sum()).max())}}))
"""
"""GPUs of one pod of each template: a share of a device occupies one, and a part without a number is of one."""

BAD = """\
variables.containers.map(group, group.map(cs, cs.filter(c,
  c.?resources.?requests.orValue({{}}).exists(k,
    {is_device} &&
    (!(k in c.resources.?limits.orValue({{}})) ||
      (string(c.resources.requests[k]) != string(c.resources.limits[k]) &&
        quantity(string(c.resources.requests[k])) != quantity(string(c.resources.limits[k]))))))
  .map(c, c.?name.orValue('main'))))
"""


def _listed(names: Iterable[str], indent: str) -> str:
    """Return names as CEL strings, over several lines where there are many."""
    return joined([f"'{name}'" for name in names], ", ", indent)


def is_device(indent: str) -> str:
    """Return an expression that says whether the resource `k` is an accelerator, as `devices.is_gpu` does."""
    names = _listed([*sorted(devices.WHOLE_GPUS), *sorted(devices.PERCENT), *sorted(devices.SHARES)], indent)
    patterns = [
        f"r'{one}'" for one in (*(f"{text}|" for text in devices.OTHER_DEVICES[:-1]), devices.OTHER_DEVICES[-1])
    ]
    known = joined(["r'^(?:'", *patterns, "r')$'"], " + ", indent)
    of_class = f"k.startsWith('{devices.OF_CLASS}')"
    other, like = devices.OTHER_CLASS, devices.LIKE_A_DEVICE
    name = f"k.substring({len(devices.OF_CLASS)}).lowerAscii()"
    return (
        f"k.contains('/') && (k in [\n{indent}{names}] ||\n{indent}"
        f"({of_class} && ({name}.matches(r'{like}') ||\n{indent}  !{name}.matches(r'{other}'))) ||\n{indent}"
        f"(!k.endsWith('-memory') && k.matches(\n{indent}{known})))"
    )


def expressions() -> dict[str, str]:
    """Return the expressions of the variables `gpus`, `bad` and `roles`."""
    parts = [
        "[" + ", ".join(f"'{name}'" for name in (device, *names)) + "]"
        for device, names in sorted(devices.PARTS.items())
    ]
    gpus = GPUS.format(
        is_device=is_device(" " * 10),
        shares=_listed(sorted(devices.SHARES), " " * 12),
        percent=_listed(sorted(devices.PERCENT), " " * 12),
        parts=joined(parts, ", ", " " * 8),
    )
    return {
        "gpus": gpus.rstrip("\n"),
        "bad": BAD.format(is_device=is_device(" " * 6)).rstrip("\n"),
        "roles": roles().rstrip("\n"),
    }


def written(text: str, rule: str) -> str:
    """Return the text of a rule with the present expressions."""
    found = expressions()
    names = ["gpus", "roles", *(["bad"] if rule == "gpu-request-equals-limit" else [])]
    for name in names:
        block = "".join(f"{_INDENT}{line}\n" if line else "\n" for line in found[name].split("\n"))
        text = re.sub(_VARIABLE % name, lambda match, block=block: match[1] + block, text)  # type: ignore[misc]
    return re.sub(_OPERATORS, lambda match: match[1] + resource_rule(rule), text)


def main() -> None:
    """Write the rules."""
    for path in sorted(_POLICIES.glob("*/rule.yaml")):
        path.write_text(written(path.read_text(encoding="utf-8"), path.parent.name), encoding="utf-8")


if __name__ == "__main__":
    main()
