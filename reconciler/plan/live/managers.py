"""Field managers: who set which field of a live object, from `metadata.managedFields`.

The format (FieldsV1) is that of sigs.k8s.io/structured-merge-diff: `f:<field>`, `k:<keys as JSON>` and `v:<value as
JSON>` for items of lists, `.` for the mapping or item itself. An empty leaf owns everything below it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence, text, value_at

OURS = "reconciler"
"""Our own field manager."""

APPLIERS = frozenset({OURS, "kustomize-controller", "argocd-controller"})
"""Managers that apply what is in Git: our own, Flux and Argo CD."""


_CONTROLLERS = frozenset(
    {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "cluster-autoscaler"}
    | {"api-priority-and-fairness-config-producer-v1", "api-priority-and-fairness-config-consumer-v1"}
    | {"kueue", "manager", "cainjector", "csi-provisioner", "keda"}
)
_CONTROLLER_ENDINGS = ("controller-manager", "-operator", "-cainjector")
"""Names of managers that no person works with: components of Kubernetes, and how operators call their programs."""


_PROGRAM_WORDS = ("controller", "operator", "webhook", "inject", "manager", "scaler", "scheduler", "agent", "updater")
_PROGRAMS = ("keda", "karpenter", "reloader", "external-secrets", "velero", "kubelet", "podgrouper", "binder")
"""Words in the names of programs that set fields beside those of others, for example in objects that they extend."""


class Manager(Struct, frozen=True, kw_only=True, order=True):
    """The manager of a field: the name that a client gives itself, the operation (`Apply`, `Update`), the time."""

    name: str
    operation: str = ""
    time: str = ""
    subresource: str = ""

    @property
    def applies_git(self) -> bool:
        """True if it applies what is in Git."""
        return self.name in APPLIERS

    @property
    def is_controller(self) -> bool:
        """True if it sets what it decides itself, not what a person wrote."""
        return self.name in _CONTROLLERS or self.name.endswith(_CONTROLLER_ENDINGS)

    @property
    def adds(self) -> bool:
        """True if what it sets beside the fields of Git is nobody's plan: it neither applies Git nor is a program."""
        is_program = any(word in self.name.lower() for word in (*_PROGRAM_WORDS, *_PROGRAMS))
        return not (self.applies_git or self.is_controller or is_program or self.subresource)


def managers_of(body: Mapping[str, Any], path: FieldPath) -> tuple[Manager, ...]:
    """Return the managers of the value at a path of a live object, in the order of their names."""
    return tuple(sorted(manager for manager, tree in _entries(body) if _owns(body, tree, path)))


def owned_by(body: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the tree of the fields that a manager has applied; None if it has applied nothing."""
    found = (
        tree
        for manager, tree in _entries(body)
        if manager.name == name and manager.operation == "Apply" and not manager.subresource
    )
    return next(found, None)


def trees_of_others(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the trees of the fields that people, and tools that are no known programs, have set."""
    return [tree for manager, tree in _entries(body) if manager.adds]


def is_addition(body: Mapping[str, Any], path: FieldPath) -> bool:
    """Return whether only people, and tools that are no known programs, own a value and what it holds."""
    found = managers_of(body, path)
    return bool(found) and all(manager.adds for manager in found)


def last_manager(body: Mapping[str, Any]) -> Manager | None:
    """Return the field manager, other than ours, that wrote an object last; None if nobody else did."""
    others = (manager for manager, _ in _entries(body) if manager.name != OURS and not manager.subresource)
    return max(others, key=lambda manager: manager.time, default=None)


def last_writer(body: Mapping[str, Any]) -> str:
    """Return the last writer of an object besides us, with the time; empty if there is none."""
    last = last_manager(body)
    return f"{last.name} at {last.time}" if last is not None else ""


def writers(body: Mapping[str, Any]) -> frozenset[Manager]:
    """Return the managers that wrote an object, besides its status and other subresources."""
    return frozenset(manager for manager, _ in _entries(body) if not manager.subresource)


def written_version(body: Mapping[str, Any]) -> str:
    """Return the `apiVersion` in which a person or a tool wrote an object last; empty if nobody did."""
    rows = map(mapping, sequence(mapping(body.get("metadata")).get("managedFields")))
    own = [
        (manager.time, text(row.get("apiVersion")))
        for row, (manager, _) in zip(rows, _entries(body), strict=True)
        if not (manager.subresource or manager.is_controller)
    ]
    return max(own, default=("", ""))[1]


def controllers_fields(body: Mapping[str, Any]) -> tuple[FieldPath, ...]:
    """Return the fields and items that controllers alone own; what such a field holds is theirs as well."""
    trees = [tree for manager, tree in _entries(body) if manager.is_controller]
    return tuple(dict.fromkeys(path for tree in trees for path in _owned_alone(body, body, tree, ())))


def _owned_alone(body: Mapping[str, Any], node: Any, tree: Mapping[str, Any], path: FieldPath) -> Iterator[FieldPath]:
    for step, below in tree.items():
        place = place_of(node, step)
        if place is None:
            continue
        inner = (*path, place)
        if path and all(manager.is_controller for manager in managers_of(body, inner)):  # never all of `metadata`
            yield inner
        else:
            yield from _owned_alone(body, node[place], below, inner)


def place_of(node: Any, step: str) -> str | int | None:
    """Return the key or position in a body that a step of a tree leads to."""
    if step.startswith("f:"):
        return step[2:] if isinstance(node, dict) and step[2:] in node else None
    items = enumerate(node if isinstance(node, list) and step != "." else ())
    return next((position for position, item in items if _names(step, item, position)), None)


_AUTOSCALERS = frozenset({"kube-controller-manager", "keda", "keda-operator"})
"""Who scales by the subresource: the HorizontalPodAutoscaler, and KEDA, whose names are those of its programs."""


def scaled_fields(body: Mapping[str, Any]) -> tuple[FieldPath, ...]:
    """Return the fields that an autoscaler has set through the `scale` subresource."""
    return tuple(
        path
        for manager, tree in _entries(body)
        if manager.subresource == "scale" and manager.name in _AUTOSCALERS
        for path in _leaves(tree)
    )


def _leaves(tree: Mapping[str, Any], path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of the owned leaves that lie in mappings alone."""
    for step, below in tree.items():
        if step.startswith("f:"):
            inner = (*path, step[2:])
            if below:
                yield from _leaves(below, inner)
            else:
                yield inner


def applied_only_by_us(body: Mapping[str, Any], path: FieldPath) -> bool:
    """Return whether a value vanishes if our apply leaves it out: nobody else owns it."""
    found = managers_of(body, path)
    return bool(found) and all(manager.name == OURS and manager.operation == "Apply" for manager in found)


def is_covered(tree: Mapping[str, Any], body: Any) -> bool:
    """Return whether every owned field still is in a body: applying it would remove nothing."""
    for step, below in tree.items():
        if step == ".":
            continue  # the mapping or item itself
        inner = _descend(body, step)
        if inner is _ABSENT or (below and not is_covered(below, inner)):
            return False
    return True


def without_given_up(live: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a dry run without the fields of a live object that our apply gives up.

    The server keeps such a field while another manager owns it. As that one waits for us in the same way, nobody would
    remove it unless the plan shows the field as removed, and the apply gives it up.
    """
    (version, before), (new_version, after) = _ours(live), _ours(result)
    given_up = _missing(before, after) if version == new_version else {}
    pruned: dict[str, Any] = _without(result, given_up) if given_up else result
    return pruned


_ABSENT = object()


def _ours(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the version of the API of our last apply, and the tree of its fields."""
    rows = map(mapping, sequence(mapping(body.get("metadata")).get("managedFields")))
    own = next((row for row in rows if row.get("manager") == OURS and row.get("operation") == "Apply"), {})
    return text(own.get("apiVersion")), mapping(own.get("fieldsV1"))


def _missing(tree: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of the fields that another tree lacks."""
    found: dict[str, Any] = {}
    for step, below in tree.items():
        if step == ".":
            continue  # the mapping or item itself
        if step not in other:
            found[step] = {}
        elif inner := _missing(below, other[step]):
            found[step] = inner
    return found


def _without(body: Any, tree: Mapping[str, Any]) -> Any:
    """Return a body without the leaves of a tree."""
    if isinstance(body, dict):
        steps = {step[2:]: below for step, below in tree.items() if step.startswith("f:")}
        return {
            name: _without(value, steps.get(name, {}))
            for name, value in body.items()
            if name not in steps or steps[name]
        }
    if isinstance(body, list):
        found = [(item, _item_tree(tree, item, position)) for position, item in enumerate(body)]
        return [_without(item, below or {}) for item, below in found if below is None or below]
    return body


def _item_tree(tree: Mapping[str, Any], item: Any, position: int) -> Mapping[str, Any] | None:
    """Return what a tree has below an item of a list; None if it does not name the item."""
    return next((below for step, below in tree.items() if _names(step, item, position)), None)


def _entries(body: Mapping[str, Any]) -> Iterator[tuple[Manager, Mapping[str, Any]]]:
    for entry in sequence(mapping(body.get("metadata")).get("managedFields")):
        row = mapping(entry)
        yield (
            Manager(
                name=text(row.get("manager")),
                operation=text(row.get("operation")),
                time=text(row.get("time")),
                subresource=text(row.get("subresource")),
            ),
            mapping(row.get("fieldsV1")),
        )


def _owns(body: Mapping[str, Any], tree: Mapping[str, Any], path: FieldPath) -> bool:
    """Walk down a tree of owned fields; a leaf on the way owns what is below it."""
    nodes: list[Mapping[str, Any]] = [tree]
    for depth, part in enumerate(path):
        holder = value_at(body, path[:depth])
        nodes = [mapping(below) for node in nodes for below in _matching(node, holder, part)]
        if not nodes:
            return False
        if any(not node for node in nodes):
            return True
    return True


def _matching(node: Mapping[str, Any], holder: Any, part: str | int) -> Iterable[Any]:
    if isinstance(part, str):
        name = f"f:{part}"
        return [node[name]] if name in node else ()
    items = sequence(holder)
    item = items[part] if part < len(items) else None
    return [below for step, below in node.items() if _names(step, item, part)]


def _names(step: str, item: Any, position: int) -> bool:
    """Return whether a step of a tree names an item of a list."""
    kind, _, value = step.partition(":")
    if kind == "k":
        keys = msgspec.json.decode(value)
        return isinstance(item, dict) and all(item.get(key) == wanted for key, wanted in keys.items())
    if kind == "v":
        return bool(msgspec.json.decode(value) == item)
    return kind == "i" and value == str(position)


def _descend(node: Any, step: str) -> Any:
    """Return what a step of a tree leads to in a body, or `_ABSENT`."""
    place = place_of(node, step)
    return _ABSENT if place is None else node[place]
