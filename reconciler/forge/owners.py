"""Code owners: who answers for a file, by the `CODEOWNERS` of a commit, as GitHub, GitLab and Gitea read it.

The three write the same file in three languages: patterns of Git of which the last match counts, patterns of a shell
by section, and regular expressions that all count. No library reads more than the first.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import re2
from msgspec import Struct

from reconciler.repo.port import Repository

_PLACES: Mapping[str, tuple[str, ...]] = {
    "github": (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    "gitlab": ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"),
    "gitea": ("CODEOWNERS", "docs/CODEOWNERS", ".gitea/CODEOWNERS", ".forgejo/CODEOWNERS"),
}
_MOST_BYTES = 3 << 20  # a longer file is read by none of them
_SECTION = re.compile(r"(?P<optional>\^?)\[(?P<name>[^\]]+)\](?:\[(?P<needed>[0-9]{1,3})\])?(?P<owners>(?:\s.*)?)")
_COMMENT = re.compile(r"\s#.*")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_GLOB_OPTIONS = re2.Options()
_GLOB_OPTIONS.log_errors = False
_GLOB_OPTIONS.dot_nl = True  # a name with a line break hides from no glob


class OwnerGroup(Struct, frozen=True, kw_only=True):
    """Owners of whom `needed` have to agree, as the file writes them: `@user`, `@group/team`, `@@role`, an address."""

    owners: tuple[str, ...]
    needed: int = 1


class OwnerRule(Struct, frozen=True, kw_only=True):
    """One line. `is_negative`: of Gitea, it matches all other files; of GitLab, a file that it matches has no owner."""

    matches: Callable[[str], bool]
    group: OwnerGroup
    section: str = ""
    is_negative: bool = False


class CodeOwners(Struct, frozen=True, kw_only=True):
    """The rules of one `CODEOWNERS` file; none if there is no such file."""

    kind: str
    rules: tuple[OwnerRule, ...] = ()

    def of(self, path: str) -> tuple[OwnerGroup, ...]:
        """Return the groups of owners of a file, each of which has to agree; none if nobody owns it."""
        if self.kind == "gitea":
            found = [rule.group.owners for rule in self.rules if rule.matches(path) != rule.is_negative]
            owners = dict.fromkeys(owner for group in found for owner in group)
            return (OwnerGroup(owners=tuple(owners)),) if owners else ()
        last: dict[str, OwnerRule] = {}
        for rule in self.rules:
            is_excluded = rule.section in last and last[rule.section].is_negative
            if not is_excluded and rule.matches(path):
                last[rule.section] = rule
        return tuple(rule.group for rule in last.values() if rule.group.owners and not rule.is_negative)


def read_owners(repository: Repository, commit: str, kind: str) -> CodeOwners:
    """Read the code owners of a commit, from the first place where a kind of forge looks; paths are from the top."""
    tree = repository.tree(commit, _PLACES[kind])
    found = next((tree[place] for place in _PLACES[kind] if place in tree and tree[place].is_file), None)
    content = next(iter(repository.read([found.oid])), b"") if found is not None else b""
    text = content.decode("utf-8", "replace") if len(content) <= _MOST_BYTES else ""
    return parse_owners(text, kind)


def parse_owners(text: str, kind: str) -> CodeOwners:
    """Read the text of a file. A line that a forge cannot read is left out, as it does itself."""
    return CodeOwners(kind=kind, rules=tuple(_RULES[kind](text.split("\n"))))


def lacking(
    owners: CodeOwners, paths: Iterable[str], *, default: str, people: Collection[str], owns: Callable[[str, str], bool]
) -> tuple[str, ...]:
    """Return the files that too few of these people own. A file that nobody owns is that of the owners of `default`.

    owns: whether an owner, as the file writes it, is a person, or has one as a member.
    """
    known: dict[tuple[str, str], bool] = {}

    def is_owner(owner: str, person: str) -> bool:
        if (owner, person) not in known:
            known[owner, person] = owner.lower() == f"@{person}".lower() or owns(owner, person)
        return known[owner, person]

    def has_agreed(group: OwnerGroup) -> bool:
        agreed = sum(any(is_owner(owner, person) for owner in group.owners) for person in people)
        return agreed >= group.needed

    def is_covered(path: str) -> bool:
        groups = owners.of(path) or owners.of(default)
        return bool(groups) and all(map(has_agreed, groups))

    return tuple(path for path in paths if not is_covered(path))


def _github_rules(lines: Sequence[str]) -> Iterator[OwnerRule]:
    for line in lines:
        words = _words(_COMMENT.sub("", line))
        if words and not words[0].startswith(("#", "!", "\\#")) and "[" not in words[0]:
            yield OwnerRule(matches=_matcher(_git_pattern(words[0])), group=OwnerGroup(owners=tuple(words[1:])))


def _gitlab_rules(lines: Sequence[str]) -> Iterator[OwnerRule]:
    section, is_optional, default = "", False, OwnerGroup(owners=())
    for line in lines:
        if heading := _SECTION.fullmatch(line.strip()):
            section, is_optional = heading["name"].lower(), bool(heading["optional"])
            default = OwnerGroup(owners=tuple(heading["owners"].split()), needed=int(heading["needed"] or 1) or 1)
            continue
        words = _words(line)
        if not words or words[0].startswith("#") or is_optional:
            continue
        pattern = words[0].removeprefix("!").removeprefix("\\")
        group = OwnerGroup(owners=tuple(words[1:]) or default.owners, needed=default.needed)
        yield OwnerRule(
            matches=_matcher(_shell_pattern(pattern)),
            group=group,
            section=section,
            is_negative=words[0].startswith("!"),
        )


def _gitea_rules(lines: Sequence[str]) -> Iterator[OwnerRule]:
    for line in lines:
        words = _tokens(line)
        if len(words) > 1:
            try:
                compiled = re2.compile(words[0].removeprefix("!"), _OPTIONS)
            except re2.error:
                continue
            group = OwnerGroup(owners=tuple(f"@{word.removeprefix('@')}" for word in words[1:]))  # it needs no `@`
            yield OwnerRule(matches=_matching(compiled), group=group, is_negative=words[0].startswith("!"))


_RULES: Mapping[str, Callable[[Sequence[str]], Iterator[OwnerRule]]] = {
    "github": _github_rules,
    "gitlab": _gitlab_rules,
    "gitea": _gitea_rules,
}


def _words(line: str) -> list[str]:
    """Return the pattern and the owners of a line; a space of a pattern is escaped."""
    return [word.replace("\0", " ") for word in line.replace("\\ ", "\0").split()]


def _tokens(line: str) -> list[str]:
    """Split a line as Gitea does: a backslash keeps the next sign, and is itself gone; a comment begins anywhere."""
    tokens, token, is_kept = [], "", False
    for sign in line.strip().replace("\t", " "):
        if not is_kept and sign == "#":
            break
        if not is_kept and sign == " ":
            tokens.append(token)
            token = ""
        elif not is_kept and sign == "\\":
            is_kept = True
            continue
        else:
            token += sign
        is_kept = False
    return [one for one in (*tokens, token) if one]


def _git_pattern(pattern: str) -> str:
    """Return the expression of a pattern of GitHub: of one without a slash in it, a file or folder at any depth."""
    inner = pattern.strip("/")
    start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    end = "/.*" if pattern.endswith("/") else "" if pattern.endswith("/*") else "(?:/.*)?"
    return start + _glob(inner) + end


def _shell_pattern(pattern: str) -> str:
    """Return the expression of a pattern of GitLab: a relative one is at any depth, a `/` at the end means a folder."""
    if pattern == "*":
        return ".*"
    return ("" if pattern.startswith("/") else "(?:.*/)?") + _glob(pattern.strip("/")) + "/.*" * pattern.endswith("/")


_PARTS = re.compile(r"\*\*/|/\*\*$|^\*\*$|\*+|\?|\[[^\]]*\]|[^*?\[]+|\[")


def _glob(pattern: str) -> str:
    """Return the expression of a glob, in which `**` alone crosses folders."""
    signs = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "?": "[^/]"}
    return "".join(
        signs.get(part)
        or ("[^/]*" if part.startswith("*") else part.replace("[!", "[^") if len(part) > 1 and part[0] == "[" else "")
        or re2.escape(part)
        for part in _PARTS.findall(posixpath.normpath(pattern))
    )


def _matcher(expression: str) -> Callable[[str], bool]:
    """Return whether a path matches, in linear time; an expression that cannot be read matches nothing."""
    try:
        return _matching(re2.compile(expression, _GLOB_OPTIONS))
    except re2.error:
        return lambda _: False


def _matching(compiled: re2._Regexp) -> Callable[[str], bool]:
    """Return whether a path matches; each byte of it that is not UTF-8 is some sign."""
    return lambda path: (
        compiled.fullmatch(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")) is not None
    )
