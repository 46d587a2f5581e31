"""How kubectl prints quantities: the cases, the record, and the real kubectl.

`make kubectl-records` writes the record, data/kubectl-quantities.json.
"""

import json
import shutil
import subprocess
from pathlib import Path

RECORD = Path(__file__).parent / "data" / "kubectl-quantities.json"
KUBECTL = shutil.which("kubectl")
_CASES = """
0 0.0 0Gi -0 0e5 1 -1 1.0 .5 0.5 1.5 1000 1000000 1500 1024 2048 99999999999999999999 1000m 1500m 100m 0.1m 1u 1n 0.1n -0.1n
1k 1000k 1M 1G 1E 1000E 1e3 1e18 1e21 12e-1 1e-3 1e-12 1e400 1Ki 1023Ki 1024Ki 1025Ki 5000000Ki 512Ki 1024Mi 1Gi 1.5Gi 0.5Gi
0.3Gi 1.1Mi 0.9Ki 0.0001Ki 1023.5Ki 1Ei 9999999999Ei -1024Mi -0.5Gi +1.5Gi -9999999Ei 123456789n
0x10 1e 1e+ 1e1.5 10KI 1ki 1K 1_0 1Zi 1mi x 1Gim 1e3Mi
1. 1e+3 1E3 00012 +5 10000E . +
"""
CASES = tuple(_CASES.split())
KUBECTL_DIFFERS = {"1.", "1e+3", "1E3", "00012", "+5", "10000E", "1000E", ".", "+"}
"""apimachinery keeps the text of small numbers as typed, prints 10**21 as 1, and takes a lone sign or point for 0."""
RECORDED: dict[str, str | None] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def ask(text: str) -> str | None:
    """Return how kubectl prints a quantity; None where it refuses it."""
    assert KUBECTL is not None
    command = [KUBECTL, "create", "quota", "q", f"--hard=cpu={text}", "--dry-run=client", "--output=json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    printed: str | None = json.loads(done.stdout)["spec"]["hard"]["cpu"] if done.returncode == 0 else None
    return printed
