"""Code owners: the same file means other things on GitHub, GitLab and Gitea."""

import pytest

from reconciler.forge.owners import CodeOwners, lacking, parse_owners

GITHUB = """
# of the whole
*       @all
*.js    @js  # a comment
/build/logs/ @doctocat
docs/*  docs@example.com
apps/   @octocat @org/apps
/scripts/ @doctocat
**/logs @octocat
/apps/github
a\\ b/  @space
[ab]c   @never
!jobs/  @never
/jobs/**/*.yaml @jobs
"""
GITLAB = """
* @default
[Docs][2] @docs @writers
docs/
/README.md @lead
docs @never-of-files-below
^[Optional]
*.yaml @optional
[Jobs]
/jobs/ @@maintainer
!/jobs/free/
[JOBS]
/jobs/**/late.yaml @late
a\\ b/c?.txt @space
"""
GITEA = """
jobs/.*   @jobs @org/team   # comment
jobs/vision/.* @vision
!jobs/.*  @others
queues/\\\\.hidden @hidden
file\\ name\\#1 @space
(broken @never
alone
"""
CASES = [
    ("github", GITHUB, "x/readme.md", [("@all",)]),
    ("github", GITHUB, "x/a.js", [("@js",)]),
    ("github", GITHUB, "build/logs/x/y", [("@octocat",)]),  # the last match
    ("github", GITHUB, "deep/build/logs", [("@octocat",)]),
    ("github", GITHUB, "docs/a.md", [("docs@example.com",)]),
    ("github", GITHUB, "docs/deeper/a.md", [("@all",)]),
    ("github", GITHUB, "x/apps/y/z", [("@octocat", "@org/apps")]),
    ("github", "*.js @js\t# was @eve", "a.js", [("@js",)]),
    ("github", "# was:\u2028* @eve", "a.js", []),  # a line ends as it does for people, and for Git
    ("gitlab", "* @ada\r\n# was:\x0c* @eve", "a.js", [("@ada",)]),
    ("github", GITHUB, "apps/github/x", []),  # a line without owners takes them away
    ("github", GITHUB, "scripts/x", [("@doctocat",)]),
    ("github", GITHUB, "x/scripts/x", [("@all",)]),
    ("github", GITHUB, "a b/x", [("@space",)]),
    ("github", GITHUB, "jobs/a.yaml", [("@jobs",)]),
    ("github", "* @all\n/jobs/ @jobs", "jobs/a\n.yaml", [("@jobs",)]),  # names that hide from a pattern
    ("github", "* @all\n/jobs/ @jobs", "jobs/a\udcff.yaml", [("@jobs",)]),
    ("github", "* @all\n/jobs/? @jobs", "jobs/\udcff", [("@jobs",)]),
    ("gitlab", "* @all\n[J]\n/jobs/ @jobs", "jobs/a\n\udcff", [("@all",), ("@jobs",)]),
    ("gitea", "jobs/.* @jobs", "jobs/\udcff", [("@jobs",)]),
    ("github", GITHUB, "jobs/x/y/a.yaml", [("@jobs",)]),
    ("github", GITHUB, "ac", [("@all",)]),
    ("gitlab", GITLAB, "x", [("@default",)]),
    ("gitlab", GITLAB, "docs/x/y.md", [("@default",), ("@docs", "@writers")]),
    ("gitlab", GITLAB, "README.md", [("@default",), ("@lead",)]),
    ("gitlab", GITLAB, "x/README.md", [("@default",)]),
    ("gitlab", GITLAB, "jobs/a.yaml", [("@default",), ("@@maintainer",)]),
    ("gitlab", GITLAB, "jobs/x/late.yaml", [("@default",), ("@late",)]),  # sections of one name are one
    ("gitlab", GITLAB, "jobs/free/late.yaml", [("@default",)]),  # what is excluded stays so
    ("gitlab", GITLAB, "x/a b/c1.txt", [("@default",), ("@space",)]),
    ("gitea", GITEA, "jobs/x", [("@jobs", "@org/team")]),
    ("gitea", GITEA, "jobs/vision/x", [("@jobs", "@org/team", "@vision")]),
    ("gitea", GITEA, "x/jobs/x", [("@others",)]),
    ("gitea", GITEA, "queues/.hidden", [("@others", "@hidden")]),
    ("gitea", GITEA, "queues/xhidden", [("@others",)]),
    ("gitea", GITEA, "file name#1", [("@others", "@space")]),
]


@pytest.mark.parametrize(("kind", "text", "path", "expected"), CASES)
def test_the_owners_of_a_file(kind: str, text: str, path: str, expected: list[tuple[str, ...]]) -> None:
    """F-161: as the documentation of each forge says."""
    assert [group.owners for group in parse_owners(text, kind).of(path)] == expected


def _lacking(owners: CodeOwners, paths: list[str], *people: str) -> tuple[str, ...]:
    teams = {("@org/team", "ada"), ("@org/team", "bob")}
    return lacking(owners, paths, default="approvals/x", people=people, owns=lambda one, who: (one, who) in teams)


def test_who_may_approve() -> None:
    """FG-08: every changed file needs an owner; of one that nobody owns, one of those of the approvals."""
    owners = parse_owners("/jobs/ @Eve\n/queues/ @org/team\n/approvals/ @root", "github")
    assert _lacking(owners, ["jobs/a"], "eve") == ()
    assert _lacking(owners, ["jobs/a", "queues/b", "README.md"], "eve") == ("queues/b", "README.md")
    assert _lacking(owners, ["jobs/a", "queues/b", "README.md"], "eve", "ada", "root") == ()
    assert _lacking(owners, ["jobs/a"], "root") == ("jobs/a",)
    assert _lacking(parse_owners("", "github"), ["jobs/a"], "root") == ("jobs/a",), "without owners nobody may"
    assert _lacking(parse_owners("* the owners, @root", "github"), ["jobs/a"], "the", "owners") == ("jobs/a",)
    two = parse_owners("[Jobs][2] @org/team\njobs/", "gitlab")
    assert (_lacking(two, ["jobs/a"], "ada"), _lacking(two, ["jobs/a"], "ada", "bob")) == (("jobs/a",), ())
