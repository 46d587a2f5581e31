"""The read-only pages over HTTP: what they show, who may read them, and what they refuse."""

import base64
import json
import threading
from pathlib import Path

import pytest
import urllib3

from reconciler.web.guard import is_loopback, proxy_guard, token_guard
from reconciler.web.pages import PAGES
from tests.cli.fleet import Fleet
from tests.cli.web_fleet import add_evidence, serving
from tests.plan.outputs.test_html_output import Reader

SECRET = "0123456789abcdef0123"


@pytest.fixture
def fleet_with_use(fleet: Fleet, kept: Path) -> Fleet:
    def make() -> None:
        add_evidence(fleet, "llama-lora", "other")
        fleet.commit("evidence")

    fleet.make_once(kept, make)
    return fleet


def get(address: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return urllib3.request("GET", address, headers=headers, timeout=10, retries=False)


def text_of(address: str) -> str:
    answer = get(address)
    assert answer.status == 200, answer.data
    return " ".join("".join(Reader(answer.data.decode()).words).split())


def test_every_page_shows_its_facts(fleet_with_use: Fleet) -> None:
    """F-131, F-163: the same figures as on the terminal, and the words of the evidence."""
    fleet_with_use.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    with serving(fleet_with_use) as (address, _):
        facts = {
            "/": (
                "NVIDIA-H100-80GB-HBM3",
                "16 of 64",
                "Over their quota",
                "h100 by 3",
                "Unschedulable",
                "evidence/main/usage.yaml:",
            ),
            "/plan": ("+16 GPUs requested on main", "Fits", "default/vit"),
            "/queues": ("h100", "32", "Waiting on main, in order", "no node has 8 free GPUs"),
            "/jobs": ("default/llama-lora", "waiting: no node has 8 free GPUs", "default/vit", "running"),
            "/nodes": ("h100-01", "Free: 48 GPUs, 48 of them on empty nodes", "unknown"),
            "/placement": ("least_utilized", "fragmentation", "Placement on main"),
            "/efficiency": ("Efficiency by team", "Cost by team"),
            "/changes": ("GPU fleet: queues, jobs", "by a person"),
        }
        assert facts.keys() == {page.path for page in PAGES}
        for path, words in facts.items():
            shown = text_of(address + path)
            assert [word for word in words if word not in shown] == [], path
        assert 'id="L12"' in get(f"{address}/source/jobs/vision/vit.yaml").data.decode()


class Figures(Reader):
    """Collects the figures of tables, and the links of a page with their text."""

    def __init__(self, text: str) -> None:
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.figures: list[tuple[str, bool]] = []
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        known = dict(attrs)
        self.ids.add(known.get("id") or "")
        if tag == "a":
            self.links.append(known.get("href") or "")
        if tag == "td" and known.get("class") == "number":
            self.figures.append(("", False))

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if "td" in self.open and self.figures:
            words, is_linked = self.figures[-1]
            self.figures[-1] = (words + data, is_linked or "a" in self.open)

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if tag == "td":
            self.figures.append(("", True))


def test_every_figure_leads_to_its_evidence(fleet_with_use: Fleet) -> None:
    """F-131: each number of a table is a link, and each link leads to a page, a file and a line that exist."""
    fleet_with_use.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    with serving(fleet_with_use) as (address, _):
        pages: dict[str, Figures] = {}

        def read(path: str) -> Figures:
            if path not in pages:
                answer = get(address + path)
                assert answer.status == 200, path
                pages[path] = Figures(answer.data.decode())
            return pages[path]

        for one in PAGES:
            found = read(one.path)
            unlinked = [words for words, is_linked in found.figures if not is_linked and any(map(str.isdigit, words))]
            assert unlinked == [], one.path
            for link in found.links:
                path, _, place = link.partition("#")
                target = read(path) if path else found
                assert not place or place in target.ids, link
        linked = sum(
            is_linked and any(map(str.isdigit, words)) for one in pages.values() for words, is_linked in one.figures
        )
        assert linked > 60
        sources = {path for path in pages if path.startswith("/source/")}
        assert {
            "/source/evidence/main/nodes.yaml",
            "/source/evidence/main/usage.yaml",
            "/source/queues/h100.yaml",
        } <= sources


def test_new_evidence_of_use_is_shown(fleet_with_use: Fleet) -> None:
    """Although no job and no queue changes with it."""
    with serving(fleet_with_use) as (address, site):
        assert "16 of 64" in text_of(f"{address}/")
        fleet_with_use.edit("evidence/main/usage.yaml", "observedAt:", "coverage: [pods of team-b]\n  observedAt:")
        site.renew()
        assert "not covered: pods of team-b" in text_of(f"{address}/")


def test_without_evidence_all_is_unknown(fleet: Fleet) -> None:
    """WV-03: nothing is 0 because nobody looked."""
    with serving(fleet) as (address, _):
        assert "unknown of 64" in text_of(f"{address}/")
        assert "Free GPUs: unknown" in text_of(f"{address}/nodes")
        stats = json.loads(get(f"{address}/api/v1/system/stats").data)
        assert (stats["totalGPUs"], stats["availableGPUs"], stats["pendingWorkloads"]) == (64, None, None)


def test_evidence_that_is_too_old_says_nothing(fleet_with_use: Fleet) -> None:
    """WV-03: with `spec.evidence.maxAge`, every figure from older evidence is unknown, and the page says why."""
    text = (fleet_with_use.root / "reconciler.yaml").read_text()
    fleet_with_use.write("reconciler.yaml", f"{text}  evidence: {{maxAge: 7d}}\n")
    fleet_with_use.edit("evidence/main/usage.yaml", "2026-11-01T06:00:00Z", "2026-10-01T06:00:00Z")
    with serving(fleet_with_use) as (address, _):
        shown = text_of(f"{address}/")
        assert "Evidence of use: unknown, evidence/main/usage.yaml:2:1 taken at 2026-10-01T06:00:00Z, " in shown
        assert "days old, and spec.evidence.maxAge allows 7" in shown
        nodes = text_of(f"{address}/nodes")
        assert "Free GPUs: unknown" in nodes or "Nodes of main unknown" in nodes
        assert "will run is unknown" in text_of(f"{address}/placement") or "Unknown: the evidence is" in text_of(
            f"{address}/placement"
        )
        assert {row["inUse"] for row in json.loads(get(f"{address}/api/v1/gpus").data)} <= {None}


def test_json_is_what_the_commands_print(fleet_with_use: Fleet) -> None:
    """WV-05: one function makes the report of the command and that of the page."""
    with serving(fleet_with_use) as (address, _):
        for path, words in (
            ("costs/summary", ("report", "cost")),
            ("performance", ("report", "efficiency")),
            ("system/stats", ("status", "--summary", "--evidence")),
        ):
            printed = fleet_with_use.run(*words, "-o", "json")
            assert printed.code == 0, printed.err
            assert json.loads(get(f"{address}/api/v1/{path}").data) == json.loads(printed.out), path


def test_what_if_is_asked_of_a_page(fleet_with_use: Fleet) -> None:
    """A scenario in words: what starts with it, and the edit that would do it; other words are told so."""
    with serving(fleet_with_use) as (address, _):
        assert "h100-01" in text_of(f"{address}/placement?q=nodes-%3Dh100-01")
        assert "Write one of" in text_of(f"{address}/placement?q=more+please")
        assert "nodes" in text_of(f"{address}/placement?q=nodes-%3Dnowhere")


def test_nothing_is_changed_through_pages(fleet: Fleet) -> None:
    """WV-08: every method but GET and HEAD is refused, with a sentence."""
    with serving(fleet) as (address, _):
        for method in ("POST", "PUT", "DELETE"):
            answer = urllib3.request(method, f"{address}/api/v1/alerts/x/resolve", timeout=10, retries=False)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
            assert b"read only" in answer.data
        assert get(f"{address}/nothing").status == 404
        for path in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "jobs", "README.md", ".git/config", "/etc/passwd"):
            assert get(f"{address}/source/{path}").status in (404, 400), path


@pytest.mark.parametrize("query", ["page=1234567x", "page=0", "page=-1", "page=%C2%B2", f"page={'9' * 5_000}", "q=%FF"])
def test_any_page_number_is_answered(fleet: Fleet, query: str) -> None:
    with serving(fleet) as (address, _):
        assert get(f"{address}/jobs?{query}").status == 200


def test_too_many_questions_are_refused(fleet: Fleet) -> None:
    with serving(fleet) as (address, _):
        assert get(f"{address}/jobs?{'&'.join('q=a' for _ in range(9))}").status == 400


def test_files_with_secrets_are_not_shown(fleet: Fleet) -> None:
    fleet.write(
        "jobs/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: hunter2hunter2}\n"
    )
    with serving(fleet) as (address, _):
        assert get(f"{address}/source/jobs/secret.yaml").status == 404
        assert "hunter2hunter2" not in text_of(f"{address}/plan")


def test_answers_have_the_headers_of_a_page_that_stays_alone(fleet: Fleet) -> None:
    with serving(fleet) as (address, _):
        headers = get(f"{address}/").headers
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert get(f"{address}/", Host="evil.example").status == 421  # a name that leads to this machine


def test_a_new_state_is_told(fleet: Fleet) -> None:
    """Pages that follow the events hear of a new state, and the next request shows it."""
    with serving(fleet) as (address, site):
        stream = urllib3.request("GET", f"{address}/events", preload_content=False, timeout=20, retries=False)
        heard: list[bytes] = []
        started = threading.Event()

        def listen() -> None:
            for line in stream.stream(1):
                heard.append(line)
                started.set()
                if b"event: changed" in b"".join(heard):
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        assert started.wait(10)
        fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
        site.renew()
        thread.join(10)
        stream.close()
        assert not thread.is_alive()
        assert "+8 GPUs requested on main" in text_of(f"{address}/plan")
        fleet.write("reconciler.yaml", "broken: [")
        site.renew()  # the last state that could be read stays
        assert "+8 GPUs requested on main" in text_of(f"{address}/plan")


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("a:1", False),
    ],
)
def test_which_addresses_are_those_of_this_machine(address: str, local: bool) -> None:
    assert is_loopback(address) is local


def test_other_addresses_want_a_login(fleet: Fleet, tmp_path: Path) -> None:
    """WV-04: nothing is served; a secret that can be guessed, and two ways to log in, are refused, too."""
    ran = fleet.run("web", "--address", "0.0.0.0:8484")
    assert ran.code == 2
    assert "everybody who reaches this address could read the pages; listen on 127.0.0.1, or add one of" in ran.err
    assert "***" not in ran.err
    assert "--token-file" in ran.err
    assert fleet.run("serve", "--address", "0.0.0.0:8484").code == 2
    mixed = fleet.run("serve", "--address", "127.0.0.1:0", "-g", "8")
    assert (mixed.code, "--gpus does not apply to --address" in mixed.err) == (2, True)
    short = tmp_path / "short"
    short.write_text("abc\n")
    assert "fewer than 16 characters" in fleet.run("web", "--address", ":8484", "--token-file", str(short)).err
    both = ("--token-file", str(short), "--proxy-secret-file", str(short))
    assert "choose one" in fleet.run("web", "--address", ":8484", *both).err


def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return file


def test_a_token_or_a_proxy_lets_in(fleet: Fleet, tmp_path: Path) -> None:
    """The token as a bearer or as the password of a browser; the user of a proxy only with its secret."""
    basic = "Basic " + base64.b64encode(f"any:{SECRET}".encode()).decode()
    with serving(fleet, token_guard(secret(tmp_path))) as (address, _):
        assert get(f"{address}/", Authorization=f"Bearer {SECRET}").status == 200
        assert get(f"{address}/", Authorization=basic).status == 200
        for wrong in ("", "Bearer", f"Bearer {SECRET}x", "Basic !!", f"Digest {SECRET}"):
            answer = get(f"{address}/", Authorization=wrong)
            assert answer.status == 401
            assert "Basic" in answer.headers["WWW-Authenticate"]
    with serving(fleet, proxy_guard(secret(tmp_path))) as (address, _):
        headers = {"X-Forwarded-User": "ada", "X-Proxy-Secret": SECRET}
        assert get(f"{address}/", **headers).status == 200
        for missing in headers:
            assert (
                get(f"{address}/", **{name: value for name, value in headers.items() if name != missing}).status == 403
            )
