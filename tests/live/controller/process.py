"""The controller as a process of its own, as users start it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from tests.cluster.server import wait_until


@dataclass(kw_only=True)
class Running:
    """A running controller: its log, and the ports that it chose."""

    process: subprocess.Popen[bytes]
    log: Path
    ports: list[int] = field(default_factory=list)

    def entries(self) -> list[dict[str, Any]]:
        """Return its log. Every line must be a JSON object."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self, message: str, **fields: object) -> list[dict[str, Any]]:
        """Return the log entries with a message and these fields."""
        return [
            entry
            for entry in self.entries()
            if entry["message"] == message and all(entry.get(name) == value for name, value in fields.items())
        ]

    def get(self, path: str) -> tuple[int, str]:
        return request(f"http://127.0.0.1:{self.ports[0]}{path}")

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        return request(f"http://127.0.0.1:{self.ports[1]}{path}", body, headers)

    def value(self, sample: str) -> float:
        """Return the value of one sample of /metrics, 0 if it is not there."""
        for line in self.get("/metrics")[1].splitlines():
            if line.rpartition(" ")[0] == sample:
                return float(line.rpartition(" ")[2])
        return 0.0

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def request(url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    method = "GET" if body is None else "POST"
    answer = urllib3.request(method, url, body=body, headers=headers, timeout=10, retries=False)
    return answer.status, answer.data.decode()


@contextmanager
def controller(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    name: str = "controller",
    within: Sequence[str] = (),
) -> Iterator[Running]:
    """Run `reconciler controller` until the block ends. `folder` keeps its log and state.

    within: a command that ends by running the words after it, such as `env -i`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    command: Sequence[str] = (
        *within, sys.executable, "-m", "reconciler", "controller", "--state", str(folder / f"{name}-state"),
        "--listen", "127.0.0.1:0", "--webhooks", "127.0.0.1:0", "--retry", "0.2", *arguments,
    )  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **(environ or {})})
    running = Running(process=process, log=log)

    def alive() -> None:
        assert process.poll() is None, log.read_text()

    try:
        wait_until(lambda: running.said("started"), "the controller", check=alive)
        running.ports = running.said("started")[0]["ports"]
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
