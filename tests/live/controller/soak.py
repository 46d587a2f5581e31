"""Two controllers under random commits, kills and faults: nothing is lost, nothing is done twice, and it ends in peace.

`make soak` runs an hour of it with ConfigSource objects and leases of a real API server.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.build import control_plane, crds, to_stderr
from tests.cluster.server import api_server, stored_state, wait_until
from tests.fakes.gitrepo import Sandbox, environment
from tests.live.controller.gitserver import GitServer, git_server
from tests.live.controller.process import Running, controller
from tools.crds import crd

Start = Callable[[str], AbstractContextManager[Running]]
_BODY = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels:\n    round: r{round}\n"
_SETTLE_SECONDS = 120.0


@dataclass(kw_only=True)
class Report:
    """What a run did, and the largest memory of a controller in MiB."""

    seconds: float = 0.0
    pushed: list[str] = field(default_factory=list)  # commits of people
    kills: int = 0
    faults: int = 0
    ours: int = 0
    memory: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.seconds:.0f} s: {len(self.pushed)} commits of people, {self.ours} of the controllers, "
            f"{self.kills} kills, {self.faults} faults, at most {self.memory:.0f} MiB"
        )


class Soak:
    """A repository, a person who edits it, and two controllers that come and go."""

    def __init__(self, server: GitServer, person: Sandbox, start: Start, *, seed: int) -> None:
        self.server, self.person, self.start = server, person, start
        self.random = random.Random(seed)  # noqa: S311 - a test
        self.report = Report()
        self.running: dict[str, tuple[ExitStack, Running]] = {}
        self.logs: list[Path] = []
        self.round = 0

    def run(self, seconds: float) -> Report:
        """Make trouble for some time, then let it settle and check everything."""
        first = self.server.tip()
        begun = time.monotonic()
        try:
            for name in ("one", "two"):
                self._launch(name)
            actions = [self._edit] * 6 + [self._kill] * 2 + [self._fail, self._measure]
            while time.monotonic() - begun < seconds:
                self.random.choice(actions)()
            self.server.fault = ""
            self._edit()
            self._settle()
        finally:
            for stack, _ in self.running.values():
                stack.close()
        self.report.seconds = time.monotonic() - begun
        self._check(first)
        return self.report

    def _launch(self, name: str) -> None:
        stack = ExitStack()
        self.running[name] = (stack, stack.enter_context(self.start(name)))
        self.logs.append(self.running[name][1].log)

    def _edit(self) -> None:
        """Push one change, as a person does: pull, edit, push, and again if someone was faster."""
        self.round += 1
        for _ in range(20):
            self.person.git("fetch", "-q", "origin")
            self.person.git("reset", "-q", "--hard", "origin/main")
            name = f"soak-{self.random.randrange(12)}"
            path = f"jobs/{name}.yaml"
            is_deletion = (self.person.folder / path).exists() and self.random.random() < 0.2
            content = None if is_deletion else _BODY.format(name=name, round=self.round).encode()
            made = self.person.commit({path: content}, f"round {self.round}")
            self.person.git("push", "-q", "origin", "main", check=False)
            if self.person.git("merge-base", "--is-ancestor", made, "origin/main", check=False) == "" and self._has(
                made
            ):
                self.report.pushed.append(made)
                break
        time.sleep(self.random.uniform(0.0, 1.5))

    def _has(self, commit: str) -> bool:
        bare = Sandbox(self.server.bare, self.person.environ)
        return commit in bare.git("rev-list", "--max-count=20", "main").split()

    def _kill(self) -> None:
        """Kill one controller at any moment and start it again."""
        name = self.random.choice([*self.running])
        stack, running = self.running[name]
        if self.random.random() < 0.7:
            running.process.kill()
        else:
            running.stop()
        stack.close()
        self.report.kills += 1
        self._launch(name)

    def _fail(self) -> None:
        """Let the Git server fail for a moment."""
        self.server.fault = self.random.choice(["down", "corrupt", "html"])
        self.report.faults += 1
        time.sleep(self.random.uniform(0.2, 2.0))
        self.server.fault = ""

    def _measure(self) -> None:
        for _, running in self.running.values():
            resident = running.value("process_resident_memory_bytes") / 2**20
            self.report.memory = max(self.report.memory, resident)

    def _settle(self) -> None:
        """Wait until the last change is rendered and nobody pushes any more."""

        def rendered() -> bool:
            tip = self.server.tip()  # of a person, if they removed what nobody had rendered yet
            return self._matches() and tip == self.server.tip()

        wait_until(rendered, "the last change is rendered", seconds=_SETTLE_SECONDS)
        tip = self.server.tip()
        polls = len(self.server.requests)
        wait_until(lambda: len(self.server.requests) > polls + 6, "polls", seconds=_SETTLE_SECONDS)
        assert self.server.tip() == tip, "the controllers do not rest"

    def _matches(self) -> bool:
        """Return whether `reconciler verify` accepts the branch."""
        self.person.git("fetch", "-q", "origin")
        self.person.git("reset", "-q", "--hard", "origin/main")
        command = [sys.executable, "-m", "reconciler", "verify", "--repo", str(self.person.folder)]
        return subprocess.run(command, capture_output=True, check=False, env=self.person.environ).returncode == 0

    def _check(self, first: str) -> None:
        history = self.server.git("log", "--reverse", "--format=%H %T %P", f"{first}..main").splitlines()
        commits = [line.split() for line in history]
        ids = {oid for oid, *_ in commits}
        assert ids >= {*self.report.pushed}, f"lost: {sorted({*self.report.pushed} - ids)}"
        ours = [row for row in commits if row[0] not in self.report.pushed]
        assert all(len(row) == 3 for row in commits), "a merge, which nobody made"
        trees = {oid: tree for oid, tree, *_ in commits}
        empty = [oid for oid, tree, parent in ours if trees.get(parent) == tree]
        assert not empty, f"commits that change nothing: {empty}"
        assert len(ours) <= len(self.report.pushed), "more commits than changes"
        self.report.ours = len(ours)
        bugs = [line for log in {*self.logs} for line in log.read_text().splitlines() if '"bug' in line]
        assert not bugs, bugs


def main() -> int:
    """Run it with leases on a real API server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(git_server(folder / "server"))
        programs, definitions = control_plane(), crds()
        state = stored_state(programs, definitions, to_stderr)
        api = stack.enter_context(api_server(folder / "api", programs, definitions, seed=state))
        api.client.apply([crd()])
        wait_until(lambda: _create(api.client, server.url), "the source")

        def start(replica: str) -> AbstractContextManager[Running]:
            flags = ("--kubeconfig", str(api.kubeconfig), "--lease-seconds", "5", "--retry", "0.5")
            return controller(folder / "c", *flags, name=replica)

        report = Soak(server, new_person(server, folder), start, seed=options.seed).run(options.minutes * 60)
        sys.stdout.write(f"{report}\n")
    return 0


def _create(client: object, url: str) -> bool:
    body = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet", "namespace": "default"},
        "spec": {"url": url, "interval": "1s", "mode": "commit"},
    }
    (result,) = client.apply([body])  # type: ignore[attr-defined]
    return bool(result.ok)


def new_person(server: GitServer, folder: Path) -> Sandbox:
    """Make a config repository, push it, and return the clone."""
    person = Sandbox(folder / "person", environment(folder / "home"))
    init = [sys.executable, "-m", "reconciler", "init", str(person.folder)]
    subprocess.run(init, check=True, env=person.environ, capture_output=True)
    person.git("remote", "add", "origin", str(server.bare))
    person.git("push", "-q", "origin", "main")
    return person


if __name__ == "__main__":
    sys.exit(main())
