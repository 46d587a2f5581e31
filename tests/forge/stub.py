"""A stub of a forge's API in memory: three dialects over one model, which refuse what their published APIs do not take.

It answers as the servers do, and fails as a test wants: answers that are lost before or after a request took effect,
limits of requests, and another controller that acts between two of our requests.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from jsonschema import Draft202012Validator

from reconciler.forge import Forge
from reconciler.forge.client import ForgeClient
from reconciler.forge.gitea import Gitea
from reconciler.forge.github import GitHub
from reconciler.forge.gitlab import GitLab
from reconciler.http import HttpResponse, HttpUnavailable

BOT = "bot"
APIS = {
    kind: json.loads((Path(__file__).parent / f"apis/{kind}.json").read_text())
    for kind in ("github", "gitlab", "gitea")
}
ADAPTERS: Mapping[str, Callable[..., Forge]] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}
_PATHS = {kind: [(re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), path) for path in api] for kind, api in APIS.items()}
PAGE = 3  # items of a page, however many are asked for


@dataclass(kw_only=True)
class Request:
    """A change request of the model."""

    number: int
    branch: str
    target: str
    title: str
    body: str
    author: str = BOT
    state: str = "open"
    head: str = ""
    merged: str = ""
    is_fork: bool = False
    labels: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Note:
    """A comment of the model."""

    id: int
    request: int
    author: str
    body: str
    edited: int = 0  # the numbers of notes are their times, too


@dataclass(kw_only=True)
class StubForge:
    """The model, and the transport of a client. `branches` are the branches that exist, with their commits."""

    kind: str = "github"
    branches: MutableMapping[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    requests: list[Request] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    statuses: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    writers: set[str] = field(default_factory=lambda: {"ada"})
    said: list[tuple[int, str, str, str]] = field(default_factory=list)  # reviews: request, author, state, commit
    teams: dict[str, set[str]] = field(default_factory=dict)
    url: str = "https://forge.example.com"
    answers: list[HttpResponse | str] = field(default_factory=list)  # of the next requests: an answer, or a fault
    before: list[Callable[[], None] | None] = field(default_factory=list)  # what others do before the next requests
    log: list[tuple[str, str, Any]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    _last: int = 0

    # -- the transport ------------------------------------------------------------------------------------------------

    def send(self, method: str, path: str, body: bytes | None = None) -> HttpResponse:
        """Answer a request, or fail as the test wants."""
        if self.before and (act := self.before.pop(0)) is not None:
            act()
        values = None if body is None else json.loads(body)
        self._validate(method, path, values)
        self.log.append((method, path, values))
        match self.answers.pop(0) if self.answers else "":
            case HttpResponse() as answer:
                return answer
            case "unsent":
                raise HttpUnavailable("it cannot be reached")
            case "failed":
                return HttpResponse(status=502, body=b"<html>bad gateway")
            case "lost":
                self._answer(method, path, values)
                raise HttpUnavailable("it did not answer within 30 s")
        return self._answer(method, path, values)

    def pause(self, attempt: int, deadline: float, response: HttpResponse | None = None) -> bool:  # noqa: ARG002
        """Note how long a client would wait."""
        self.pauses.append(response.retry_after_s if response is not None else 0.0)
        return True

    def open(self, account: str = "") -> Forge:
        """Return a client of the model."""
        return ADAPTERS[self.kind](ForgeClient(self), "team/fleet", account=account)

    def _validate(self, method: str, path: str, values: Any) -> None:
        """Compare a request with the published API: path, parameters, and all keys and types of the body."""
        parts = urlsplit(path)
        for pattern, name in _PATHS[self.kind]:
            if pattern.fullmatch(parts.path) and method.lower() in APIS[self.kind][name]:
                operation = APIS[self.kind][name][method.lower()]
                break
        else:
            raise AssertionError(f"{self.kind} has no {method} {parts.path}")
        given = {key: one[0] for key, one in parse_qs(parts.query).items()}
        assert given.keys() <= operation["query"].keys(), (path, operation["query"].keys())
        for key, value in given.items():
            allowed = operation["query"][key].get("enum")
            assert allowed is None or value in allowed, (key, value)
        assert (values is None) or "body" in operation, (method, path)
        if values is not None:
            _validator(self.kind, name, method.lower()).validate(values)

    # -- the servers --------------------------------------------------------------------------------------------------

    def _answer(self, method: str, path: str, values: Any) -> HttpResponse:  # noqa: PLR0911 - a table of requests
        parts = urlsplit(path)
        query = {key: one[0] for key, one in parse_qs(parts.query).items()}
        steps = [unquote(step) for step in parts.path.strip("/").split("/")]
        if steps == ["user"]:
            return _json({"login": BOT, "username": BOT})
        if steps[0] in ("orgs", "teams", "groups"):
            return self._member(steps)
        assert steps[:3] == ["repos", "team", "fleet"] or steps[:2] == ["projects", "team/fleet"], steps
        steps = steps[3:] if steps[0] == "repos" else steps[2:]
        match (method, *steps):
            case ("GET",):
                return _json({"default_branch": "main"})
            case ("GET", "pulls" | "merge_requests"):
                return self._page(path, query, [self._shown(one) for one in self._listed(query)])
            case ("POST", "pulls" | "merge_requests"):
                return self._opened(values)
            case ("GET", "pulls" | "merge_requests", number):
                return _json(self._shown(self.request(int(number))))
            case ("PATCH" | "PUT", "pulls" | "merge_requests", number):
                return self._edited(self.request(int(number)), values)
            case ("GET", "issues" | "merge_requests", number, "comments" | "notes"):
                return self._page(path, query, [self._note(one) for one in self.notes if one.request == int(number)])
            case ("POST", "issues" | "merge_requests", number, "comments" | "notes"):
                self.notes.append(Note(id=self._next(), request=int(number), author=BOT, body=values["body"]))
                return _json(self._note(self.notes[-1]), 201)
            case (_, "issues", "comments", number) | (_, "merge_requests", _, "notes", number):
                return self._noted(method, int(number), values)
            case ("POST", "statuses", commit):
                self.statuses.append((commit, values))
                return _json({}, 201)
            case ("POST", "check-runs"):
                self.runs.append({**values["output"], "commit": values["head_sha"]})
                return _json({"id": len(self.runs)}, 201)
            case ("PATCH", "check-runs", number):
                self.runs[int(number) - 1]["annotations"] += values["output"]["annotations"]
                return _json({"id": int(number)})
            case ("GET", "collaborators", user, "permission"):
                return _json({"permission": "write" if user in self.writers else "read"})
            case ("GET", "pulls", number, "reviews"):
                return self._page(path, query, [self._review(*one) for one in self.said if one[0] == int(number)])
            case ("GET", "merge_requests", number, "approvals"):
                return _json({"approved_by": self._approvals(int(number))})
            case ("GET", "merge_requests", number, "versions"):
                heads = dict.fromkeys(commit for one, _, _, commit in self.said if one == int(number))
                made = [{"head_commit_sha": head, "created_at": _time(head)} for head in heads]
                return self._page(path, query, made[::-1])
            case ("GET", "teams"):
                return _json([self._team(number, name) for number, name in enumerate(sorted(self.teams))])
            case ("GET", "members"):
                return self._page(
                    path, query, [{"username": user, "access_level": 40} for user in sorted(self.writers)]
                )
            case ("GET", "members", "all"):
                return _json([{"username": user, "access_level": 30} for user in sorted(self.writers)])
        raise AssertionError((method, steps))

    def _team(self, number: int, name: str) -> dict[str, Any]:
        units = {"repo.code": "write" if f"@{name}" in self.writers else "read"}
        return {"id": number, "name": name, "units_map": units}

    def _member(self, steps: list[str]) -> HttpResponse:
        match steps:
            case ["orgs", _, "teams", team, "memberships", user]:
                found = {"state": "active" if user in self.teams.get(team, ()) else "pending"}
                return _json(found) if team in self.teams else _json({"message": "Not Found"}, 404)
            case ["teams", number, "members", user] if user in self.teams[sorted(self.teams)[int(number)]]:
                return _json({"login": user})
            case ["groups", group, "members"] if (users := self.teams.get(group.rpartition("/")[2])) is not None:
                return _json([{"username": user} for user in sorted(users)])
        return _json({"message": "Not Found"}, 404)

    def _review(self, _: int, author: str, state: str, commit: str) -> dict[str, Any]:
        words = {"github": {"changes": "CHANGES_REQUESTED"}, "gitea": {"changes": "REQUEST_CHANGES"}}[self.kind]
        is_dismissed = self.kind == "gitea" and state == "dismissed"
        shown = "APPROVED" if is_dismissed else words.get(state, state.upper())
        return {"user": {"login": author}, "state": shown, "commit_id": commit, "dismissed": is_dismissed}

    def _approvals(self, number: int) -> list[dict[str, Any]]:
        """Return what GitLab has: people who approve now, and since when; it keeps no commit and no other word."""
        last: dict[str, tuple[str, str]] = {}
        for request, author, state, commit in self.said:
            if request == number and state != "commented":
                last[author] = (state, commit)
        return [
            {"user": {"username": author}, "approved_at": _time(commit, 30)}
            for author, (state, commit) in last.items()
            if state == "approved"
        ]

    def request(self, number: int) -> Request:
        """Return one change request."""
        return next(one for one in self.requests if one.number == number)

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _listed(self, query: Mapping[str, str]) -> list[Request]:
        states = {"open": {"open"}, "opened": {"open"}, "all": {"open", "closed", "merged"}}[query["state"]]
        branch = query.get("head", "").rpartition(":")[2] or query.get("source_branch", "")
        chosen = [one for one in self.requests if one.state in states and branch in ("", one.branch)]
        return chosen if "asc" in query.values() or "oldest" in query.values() else chosen[::-1]

    def _opened(self, values: Mapping[str, Any]) -> HttpResponse:
        branch, target = values.get("head") or values["source_branch"], values.get("base") or values["target_branch"]
        if branch not in self.branches:
            return _json({"message": "Validation Failed: head is invalid"}, 422)
        if any((one.branch, one.target, one.state) == (branch, target, "open") for one in self.requests):
            return _json({"message": "A pull request already exists"}, 422 if self.kind == "github" else 409)
        body = values.get("body") or values.get("description") or ""
        made = Request(number=self._next(), branch=branch, target=target, title=values["title"], body=body)
        self.requests.append(made)
        return _json(self._shown(made), 201)

    def _edited(self, request: Request, values: Mapping[str, Any]) -> HttpResponse:
        request.body = values.get("body") or values.get("description") or request.body
        if request.state == "open" and (values.get("state") == "closed" or values.get("state_event") == "close"):
            request.head = self.branches.get(request.branch, request.head)
            request.state = "closed"
        return _json(self._shown(request))

    def _noted(self, method: str, number: int, values: Any) -> HttpResponse:
        found = next((one for one in self.notes if one.id == number), None)
        if found is None:
            return _json({"message": "Not Found"}, 404)
        if method == "DELETE":
            self.notes.remove(found)
            return HttpResponse(status=204, body=b"")
        found.body, found.edited = values["body"], self._next()
        return _json(self._note(found))

    def _page(self, path: str, query: Mapping[str, str], items: list[Any]) -> HttpResponse:
        page = int(query.get("page", "1"))
        shown = items[(page - 1) * PAGE : page * PAGE]
        if self.kind == "gitea" and path.endswith("/comments"):
            shown, items = items, []  # Gitea lists all comments at once
        plain = re.sub(r"[?&]page=\d+", "", path)
        following = f"{plain}{'&' if '?' in plain else '?'}page={page + 1}" if len(items) > page * PAGE else ""
        return HttpResponse(status=200, body=json.dumps(shown).encode(), next=following)

    def _shown(self, one: Request) -> dict[str, Any]:
        head = one.head if one.state != "open" else self.branches.get(one.branch, one.head)
        news = [*(note.request for note in self.notes), *(said[0] for said in self.said)]
        updated = f"{news.count(one.number)} {head}"
        if self.kind == "gitlab":
            return {
                "iid": one.number, "web_url": f"{self.url}/{one.number}", "title": one.title, "description": one.body,
                "source_branch": one.branch, "target_branch": one.target, "sha": head,
                "state": {"open": "opened"}.get(one.state, one.state), "author": {"username": one.author},
                "source_project_id": 2 if one.is_fork else 1, "target_project_id": 1, "labels": sorted(one.labels),
                "merge_commit_sha": one.merged or None, "updated_at": updated,
            }  # fmt: skip
        source = {"ref": one.branch, "sha": head, "repo": {"id": 2 if one.is_fork else 1}, "label": one.branch}
        return {
            "number": one.number, "html_url": f"{self.url}/{one.number}", "title": one.title, "body": one.body,
            "head": source, "base": {"ref": one.target, "repo": {"id": 1}},
            "state": "open" if one.state == "open" else "closed", "merged_at": "now" if one.merged else None,
            "merge_commit_sha": one.merged or None, "user": {"login": one.author},
            "labels": [{"name": label} for label in sorted(one.labels)], "updated_at": updated,
        }  # fmt: skip

    def _note(self, one: Note) -> dict[str, Any]:
        account = {"login": one.author, "username": one.author}
        times = {"created_at": _clock(one.id), "updated_at": _clock(one.edited or one.id)}
        return {"id": one.id, "user": account, "author": account, "body": one.body, **times}


@cache
def _validator(kind: str, path: str, method: str) -> Draft202012Validator:
    schema = APIS[kind][path][method]["body"]
    if "oneOf" not in schema and "anyOf" not in schema:
        schema = {**schema, "additionalProperties": False}
    return Draft202012Validator(schema)


def _time(commit: str, seconds: int = 0) -> str:
    """Return the time at which a version was pushed: the commits of the model are numbers."""
    return f"2026-01-01T10:{int(commit, 16) % 60:02}:{seconds:02}.000Z"


def _clock(tick: int) -> str:
    return f"2026-01-01T10:{tick // 60:02}:{tick % 60:02}Z"


def _json(body: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status=status, body=json.dumps(body).encode())


@contextmanager
def served(stub: StubForge) -> Iterator[str]:
    """Serve a stub on loopback; requests that its API does not take end the test by an answer of 500."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            path = re.sub(r"^/api/v[134]", "", self.path)
            assert self.headers["Authorization"] == "Bearer canary-token"
            answer = stub.send(self.command, path, body)
            self.send_response(answer.status)
            if answer.next:
                self.send_header("Link", f'<http://elsewhere{self.path[:7]}{answer.next}>; rel="next"')
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - names of http.server

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
