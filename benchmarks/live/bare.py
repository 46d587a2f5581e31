"""The floor: server-side applies of ready bodies, eight at one time, and nothing else.

`python -m benchmarks.live.bare KUBECONFIG BODIES` with one JSON object in each line.
"""

import http.client
import json
import queue
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster import kubeconfig

_CONCURRENCY = 8


def main() -> None:
    """Apply every body."""
    endpoint = kubeconfig.endpoint(Path(sys.argv[1]))
    server = urlsplit(endpoint.server)
    headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": "application/apply-patch+yaml"}
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for line in Path(sys.argv[2]).read_bytes().splitlines():
        waiting.put(line)
    failed: list[bytes] = []

    def work() -> None:
        connection = http.client.HTTPSConnection(str(server.hostname), server.port, context=endpoint.context)
        while True:
            try:
                body = waiting.get_nowait()
            except queue.Empty:
                return
            metadata = json.loads(body)["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{metadata['name']}"
            connection.request("PATCH", f"{path}?fieldManager=bare&force=true", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= http.client.MULTIPLE_CHOICES:
                failed.append(text)

    threads = [threading.Thread(target=work) for _ in range(_CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(failed[0].decode())


if __name__ == "__main__":
    main()
