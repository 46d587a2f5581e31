"""The real Flux: source-controller fetches Git repositories, kustomize-controller applies what they hold."""

from functools import partial
from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, loopback
from tests.cluster.server import install_crds, listens, wait_until

NAMESPACE = "flux-system"


def start_flux(bed: Bed, source: Path, kustomize: Path, crds: Path) -> None:
    """Start both controllers; `crds` is the folder of their definitions."""
    health: list[str] = []

    def plan() -> tuple[shared.Program, ...]:
        folder = bed.part_folder("flux")
        install_crds(bed.server.client, crds)
        bed.server.client.ensure_namespaces([NAMESPACE])
        health[:] = [loopback(), loopback()]
        storage = loopback()
        storage_flags = (
            f"--storage-path={folder / 'artifacts'}",
            f"--storage-addr={storage}",
            f"--storage-adv-addr={storage}",
        )
        (folder / "artifacts").mkdir(exist_ok=True)
        flags = ("--watch-all-namespaces", "--enable-leader-election=false", "--events-addr=")
        environment = (
            ("KUBECONFIG", str(bed.kubeconfig)),
            ("RUNTIME_NAMESPACE", NAMESPACE),
            ("TMPDIR", str(folder)),
        )
        return tuple(
            shared.Program(
                name=program.name,
                argv=(str(program), *flags, f"--metrics-addr={loopback()}", f"--health-addr={address}", *more),
                environment=environment,
            )
            for program, address, more in ((source, health[0], storage_flags), (kustomize, health[1], ()))
        )

    def ready(check: shared.Check) -> None:
        for address in health:
            port = int(address.rpartition(":")[2])
            wait_until(partial(listens, port), "Flux", check=check)

    bed.attach("flux", plan, ready)
