"""The three APIs: every request is compared with what is published; every refusal says what to do."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from reconciler.errors import ConfigError
from reconciler.forge import (
    Annotation,
    ChangeRequest,
    CommitStatus,
    ForgeConflict,
    ForgeError,
    LostAnswer,
    RequestState,
    StatusState,
)
from reconciler.forge.commenting import put_comment
from reconciler.forge.opening import access_of, address_of, app_token, open_forge, pipeline_link, pipeline_request
from reconciler.http import HttpResponse
from reconciler.repo.config.forge import ForgeSettings
from tests.forge.stub import BOT, Note, Request, StubForge

KINDS = ("github", "gitlab", "gitea")
MARKER = "<!-- gpu-reconciler:plan:default -->"


def answer(status: int, said: str = "", wait: int = 0) -> HttpResponse:
    return HttpResponse(status=status, body=json.dumps({"message": said}).encode(), retry_after_s=wait)


@pytest.fixture(params=KINDS)
def stub(request: pytest.FixtureRequest) -> StubForge:
    return StubForge(kind=request.param)


def test_everything_that_is_asked_for(stub: StubForge) -> None:
    """F-161: the life of a change request, with pages of three items."""
    forge = stub.open()
    assert (forge.me(), forge.default_branch(), forge.may_write("ada"), forge.may_write("eve")) == (
        BOT,
        "main",
        True,
        False,
    )
    stub.branches["reconciler/x"] = "1" * 40
    made = forge.open(title="T", body="B", branch="reconciler/x", target="main")
    assert made == ChangeRequest(
        number=made.number, url=made.url, title="T", body="B", branch="reconciler/x", target="main", head="1" * 40,
        state=RequestState.OPEN, author=BOT, updated=made.updated,
    )  # fmt: skip
    with pytest.raises(ForgeConflict):
        forge.open(title="T", body="B", branch="reconciler/x", target="main")
    assert (forge.request(made.number), *forge.of_branch("reconciler/x")) == (made, made)
    for number in range(5):
        forge.comment(made.number, str(number))
    comments = forge.comments(made.number)
    assert [one.body for one in comments] == list("01234")
    forge.edit_comment(made.number, comments[0].id, "new")
    for _ in range(2):
        forge.delete_comment(made.number, comments[1].id)  # the second time it is gone
    assert [one.body for one in forge.comments(made.number)] == ["new", *"234"]
    forge.set_status("1" * 40, CommitStatus(context="c", state=StatusState.SUCCESS, summary="s", url="https://x"))
    assert [commit for commit, _ in stub.statuses] == ["1" * 40]
    assert [one.number for one in forge.open_requests()] == [made.number]
    forge.edit(made.number, body="closed", close=True)
    assert not list(forge.open_requests())
    (closed,) = forge.of_branch("reconciler/x")
    assert (closed.state, closed.body) == (RequestState.CLOSED, "closed")
    assert str(made.number) in forge.head_ref(made.number)


def test_requests_of_forks_are_not_of_the_branch(stub: StubForge) -> None:
    for number in range(1, 6):
        stub.requests.append(Request(number=number, branch="b", target="main", title="", body="", is_fork=number != 2))
    assert [one.number for one in stub.open().of_branch("b")] == [2]
    assert [one.is_fork for one in stub.open().open_requests()] == [True, False, True, True, True]


def test_approvals_stand_for_a_commit(stub: StubForge) -> None:
    """F-161, FG-08: the last word of each person counts, for the commit that it was said about."""
    one, two = "1".zfill(40), "2".zfill(40)
    stub.said = [
        (7, "ada", "changes", one), (7, "ada", "approved", one), (7, "bob", "approved", one), (7, "bob", "changes", two),
        (7, "cyd", "approved", two), (7, "cyd", "commented", two), (7, "eve", "dismissed", two), (8, "eve", "approved", one),
    ]  # fmt: skip
    assert {(each.author, each.commit) for each in stub.open().reviews(7)} == {("ada", one), ("cyd", two)}
    assert stub.open().reviews(9) == []
    if stub.kind == "gitlab":
        approved, version = {"user": {"username": "ada"}}, {"created_at": None, "head_commit_sha": one}
        stub.answers = [
            HttpResponse(status=200, body=json.dumps(said).encode())
            for said in ({"approved_by": [approved]}, [version])
        ]
        assert [each.commit for each in stub.open().reviews(7)] == [""], "nobody knows which came first"


def test_a_part_of_a_list_decides_nothing(stub: StubForge) -> None:
    """FG-08: what took an approval back, or answered a command, may be in what is not read."""
    stub.requests.append(Request(number=7, branch="b", target="main", title="", body=""))
    if stub.kind != "gitea":  # it lists all comments at once
        stub.notes += [Note(id=number, request=7, author="eve", body="x") for number in range(200)]
        with pytest.raises(ForgeError, match="more than 50 pages"):
            stub.open().comments(7)
    if stub.kind != "gitlab":  # it has no list of them
        stub.said += [(7, f"eve{number}", "approved", "1") for number in range(200)]
        with pytest.raises(ForgeError, match="more than 50 pages"):
            stub.open().reviews(7)


def test_owners_have_members(stub: StubForge) -> None:
    """F-161, FG-08: teams of GitHub and Gitea, groups and roles of GitLab; nobody is in one that is not there."""
    stub.teams = {"core": {"ada", "bob"}, "ops": {"eve"}}
    forge = stub.open()
    assert [forge.owns("@team/core", user) for user in ("ada", "eve")] == [True, False]
    assert not forge.owns("@team/gone", "ada")
    assert not forge.owns("@bob", "ada")
    assert forge.owns("@other/core", "ada") == (stub.kind != "gitea"), "Gitea lists teams of the organization alone"
    assert [forge.owns(f"@@{role}", "ada") for role in ("maintainers", "developer")] == [stub.kind == "gitlab", False]


def test_teams_of_gitea_may_push() -> None:
    """FG-08: the permission of a user leaves them out, and a repository without an organization has none."""
    stub = StubForge(kind="gitea", teams={"core": {"bob"}, "readers": {"eve"}}, writers={"ada", "@core"})
    assert [stub.open().may_write(user) for user in ("ada", "bob", "eve", "cyd")] == [True, True, False, False]
    stub.answers = ["", answer(405, "repo is not owned by an organization")]
    assert not stub.open().may_write("bob")


def test_annotations_are_sent_in_parts() -> None:
    """F-161: GitHub takes 50 with each request; the others have none, and a token without the right is no failure."""
    marks = [Annotation(path="a.yaml", line=n, level="warning", title="t", message="m") for n in range(1, 121)]
    stub = StubForge()
    assert stub.open().annotate("1" * 40, "reconciler/findings", "summary", marks)
    (run,) = stub.runs
    assert [one["start_line"] for one in run["annotations"]] == list(range(1, 121))
    stub.answers = [answer(403, "Resource not accessible by personal access token")]
    assert not stub.open().annotate("1" * 40, "reconciler/findings", "summary", marks)
    assert not StubForge(kind="gitlab").open().annotate("1" * 40, "n", "s", marks)


def test_a_limit_of_requests_is_waited_for(stub: StubForge) -> None:
    """FG-07: 403 with Retry-After 3 is sent once more after it; 401 is not."""
    stub.answers = [answer(403, "You have exceeded a secondary rate limit", 3)]
    stub.open().comment(1, "x")
    assert (stub.pauses, len(stub.log), len(stub.notes)) == ([3], 2, 1)
    stub.answers = [answer(401, "Bad credentials")]
    with pytest.raises(ForgeError, match="does not accept the token") as refused:
        stub.open().comment(1, "x")
    assert (refused.value.exit_code, len(stub.log)) == (6, 3)


@pytest.mark.parametrize("status", [403, 404])
def test_a_missing_right_is_named(stub: StubForge, status: int) -> None:
    """FG-06."""
    rights = {"github": "pull-requests: write", "gitlab": "api, with the role Developer", "gitea": "write:issue"}
    stub.answers = [answer(status, "Resource not accessible")]
    with pytest.raises(ForgeError, match=rights[stub.kind]) as refused:
        stub.open().comment(1, "x")
    assert refused.value.exit_code == 6


def test_a_renamed_repository_is_not_followed(stub: StubForge) -> None:
    stub.answers = [answer(301, "Moved Permanently")]
    with pytest.raises(ForgeError, match="was renamed"):
        stub.open().default_branch()


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[1]", b'{"number": {}}', b"null", b'"x"', b"\xff"])
def test_an_answer_of_another_shape_is_no_bug(stub: StubForge, body: bytes) -> None:
    stub.answers = [HttpResponse(status=200, body=body)]
    with pytest.raises(ForgeError, match="unexpected"):
        stub.open().request(1)


@pytest.mark.parametrize("fault", ["lost", "failed", "unsent"])
def test_a_lost_answer_makes_no_second_comment(stub: StubForge, fault: str) -> None:
    """F-161: it is looked for before it is sent again; a comment of somebody else with our first line is not ours."""
    stub.notes.append(Note(id=1, request=7, author="eve", body=MARKER))
    stub._last = 1
    stub.answers = ["", "", fault]
    assert put_comment(stub.open(), 7, MARKER, f"{MARKER}\n\nplan")
    assert [(one.author, one.body) for one in stub.notes] == [("eve", MARKER), (BOT, f"{MARKER}\n\nplan")]
    assert not put_comment(stub.open(), 7, MARKER, f"{MARKER}\r\n\r\nplan\r\n"), "it is the same text"


def test_two_runs_at_once_leave_one_comment(stub: StubForge) -> None:
    """FG-10: the other one writes between our look and our comment."""

    def other() -> None:
        put_comment(stub.open(), 7, MARKER, f"{MARKER} theirs")

    stub.before = [None, None, other]
    put_comment(stub.open(), 7, MARKER, f"{MARKER} ours")
    assert [one.request for one in stub.notes] == [7]


def test_an_answer_stays_lost() -> None:
    stub = StubForge(answers=["failed"] * 50)
    with pytest.raises(LostAnswer):
        stub.open().comment(1, "x")
    assert len(stub.log) == 1, "a request with an effect is not repeated blindly"


HOSTS = [
    ("https://github.com/team/fleet.git", {}, "github", "https://api.github.com", "team/fleet"),
    ("git@gitlab.com:group/sub/fleet.git", {}, "gitlab", "https://gitlab.com/api/v4", "group/sub/fleet"),
    ("ssh://git@codeberg.org/team/fleet", {}, "gitea", "https://codeberg.org/api/v1", "team/fleet"),
    (
        "https://git.example.com/x/y",
        {"GITEA_ACTIONS": "true", "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://git.example.com", "GITHUB_REPOSITORY": "a/b"},
        "gitea", "https://git.example.com/api/v1", "a/b",
    ),
    (
        "https://git.example.com/x/y",
        {"GITLAB_CI": "true", "CI_SERVER_URL": "https://git.example.com/sub", "CI_PROJECT_PATH": "a/b/c"},
        "gitlab", "https://git.example.com/sub/api/v4", "a/b/c",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("remote", "environ", "kind", "api", "repository"), HOSTS)
def test_the_forge_follows_from_where_it_runs(
    remote: str, environ: dict[str, str], kind: str, api: str, repository: str
) -> None:
    address = address_of(ForgeSettings(), [remote], environ)
    assert (address.kind, address.api, address.repository) == (kind, api, repository)
    access = access_of([remote], {**environ, "RECONCILER_FORGE_TOKEN": "canary"})
    assert open_forge(address, access).kind == kind
    assert "canary" not in repr(access) + repr(open_forge(address, access)._client._transport.endpoint)  # type: ignore[attr-defined]


def test_the_repository_does_not_choose_who_gets_the_token() -> None:
    """F-161: neither another host, nor one without encryption."""
    remote = ["https://github.com/team/fleet"]
    access = access_of(remote, {"RECONCILER_FORGE_TOKEN": "canary"})
    evil = ForgeSettings(kind="gitea", url="https://evil.example.com")
    with pytest.raises(ConfigError, match=r"is for github\.com") as refused:
        open_forge(address_of(evil, remote, {}), access)
    assert "canary" not in str(refused.value)
    plain = ForgeSettings(kind="gitea", url="http://git.example.com", repository="a/b")
    named = access_of(remote, {"RECONCILER_FORGE_TOKEN": "canary", "RECONCILER_FORGE_HOST": "git.example.com"})
    with pytest.raises(ConfigError, match="encryption"):
        open_forge(address_of(plain, remote, {}), named)
    with pytest.raises(ConfigError, match="no token"):
        open_forge(address_of(evil, remote, {}), access_of(remote, {}))
    with pytest.raises(ConfigError, match=r"kind of the forge git\.example\.com"):
        address_of(ForgeSettings(), ["https://git.example.com/a/b"], {})


def test_an_app_signs_its_token(tmp_path: Path) -> None:
    """F-161: RS256, for ten minutes at most; others must not read the key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    head, claims, signature = app_token("Iv1.x", pem, 1_000).split(".")

    def decode(part: str) -> bytes:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    key.public_key().verify(decode(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    assert json.loads(decode(claims)) == {"iat": 940, "exp": 1540, "iss": "Iv1.x"}
    with pytest.raises(ConfigError, match="private key"):
        app_token("x", b"nonsense", 0)
    file = tmp_path / "key.pem"
    file.write_bytes(pem)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        access_of([], {"RECONCILER_FORGE_APP_KEY": str(file)})


def test_pipelines_name_their_request_and_run() -> None:
    assert pipeline_request({"GITHUB_REF": "refs/pull/12/merge"}) == 12
    assert pipeline_request({"CI_MERGE_REQUEST_IID": "7"}) == 7
    assert pipeline_request({"GITHUB_REF": "refs/heads/main"}) == 0
    github = {
        "GITHUB_SERVER_URL": "https://g",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_RUN_ID": "9",
        "GITHUB_RUN_NUMBER": "3",
    }
    assert pipeline_link(github) == "https://g/a/b/actions/runs/9"
    assert pipeline_link({**github, "GITEA_ACTIONS": "true"}) == "https://g/a/b/actions/runs/3"
    assert pipeline_link({"CI_JOB_URL": "https://l/1"}) == "https://l/1"
