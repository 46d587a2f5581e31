"""Which card a name means, and which cards a cluster offers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.devices import Vendor
from reconciler.sizing.gpus import Gpu
from reconciler.sizing.inventory import Inventory, Node
from tests.sizing.tables import GPU_TABLE


@pytest.mark.parametrize(
    ("label", "gib"),
    [
        ("Tesla-T4", 15.0),
        ("Tesla-V100-SXM2-16GB", 16.0),
        ("Tesla-V100-SXM2-32GB", 32.0),
        ("Tesla-V100-PCIE-16GB", 16.0),
        ("NVIDIA-A10", 22.49),
        ("NVIDIA-A10G", 22.49),
        ("NVIDIA-A30", 24.0),
        ("NVIDIA-A40", 44.99),
        ("NVIDIA-A100-SXM4-40GB", 40.0),
        ("NVIDIA-A100-PCIE-40GB", 40.0),
        ("NVIDIA-A100-SXM4-80GB", 80.0),
        ("NVIDIA-A100-80GB-PCIe", 80.0),
        ("NVIDIA-A800-SXM4-80GB", 80.0),
        ("NVIDIA-H100-80GB-HBM3", 79.65),
        ("NVIDIA-H100-PCIe", 79.65),
        ("NVIDIA-H100-NVL", 93.58),
        ("NVIDIA-H800", 79.65),
        ("NVIDIA-H20", 95.58),
        ("NVIDIA-H200", 140.4),
        ("NVIDIA-H200-NVL", 140.4),
        ("NVIDIA-GH200-480GB", 95.58),
        ("NVIDIA-B200", 179.06),
        ("NVIDIA-GB200", 185.03),
        ("NVIDIA-B300-SXM6-AC", 268.59),
        ("NVIDIA-GB300", 277.55),
        ("NVIDIA-L4", 22.49),
        ("NVIDIA-L40", 44.99),
        ("NVIDIA-L40S", 44.99),
        ("NVIDIA-GeForce-RTX-4090", 23.99),
        ("NVIDIA-GeForce-RTX-5090", 31.84),
        ("NVIDIA-RTX-A6000", 47.99),
        ("NVIDIA-RTX-6000-Ada-Generation", 47.99),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 95.59),
        ("AMD_Instinct_MI210", 63.98),
        ("AMD_Instinct_MI250X", 63.98),
        ("AMD_Instinct_MI300X_OAM", 191.98),
        ("AMD_Instinct_MI325_OAM", 255.98),
        ("AMD_Instinct_MI355_OAM", 287.98),
    ],
)
def test_labels_of_nodes_are_known(label: str, gib: float) -> None:
    found = GPU_TABLE.find(label)
    assert found is not None
    assert found.product == label
    assert found.memory_gib == gib
    assert found.vendor is (Vendor.AMD if label.startswith("AMD") else Vendor.NVIDIA)


@pytest.mark.parametrize(
    ("written", "product"),
    [
        ("L40S", "NVIDIA-L40S"),
        ("NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-80GB-PCIe"),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("NVIDIA-H100-PCIe", "NVIDIA-H100-PCIe"),
    ],
)
def test_autoconfs_names_are_known(written: str, product: str) -> None:
    """What ado-autoconf calls a card is that card."""
    found = GPU_TABLE.find(written)
    assert found is not None
    assert (found.product, found.autoconf) == (product, written)


@pytest.mark.parametrize(
    ("written", "product"),
    [
        ("nvidia-l4", "NVIDIA-L4"),
        ("NVIDIA L40S", "NVIDIA-L40S"),
        ("NVIDIA-L4-SHARED", "NVIDIA-L4"),
        ("NVIDIA-Tesla-T4", "Tesla-T4"),
        ("T4", "Tesla-T4"),
        ("A10G", "NVIDIA-A10G"),
        ("RTX 4090", "NVIDIA-GeForce-RTX-4090"),
        ("GeForce RTX 5090", "NVIDIA-GeForce-RTX-5090"),
        ("RTX A6000", "NVIDIA-RTX-A6000"),
        ("H100-SXM", "NVIDIA-H100-80GB-HBM3"),
        ("H200", "NVIDIA-H200"),
        ("MI300X", "AMD_Instinct_MI300X_OAM"),
        ("AMD-Instinct-MI300X-OAM", "AMD_Instinct_MI300X_OAM"),
        ("AMD Instinct MI250X / MI250", "AMD_Instinct_MI250"),
        ("AMD_Instinct_MI325X", "AMD_Instinct_MI325_OAM"),
    ],
)
def test_cards_have_other_spellings(written: str, product: str) -> None:
    found = GPU_TABLE.find(written)
    assert found is not None
    assert found.product == product


def test_a_short_name_counts_where_all_cards_have_the_same_memory() -> None:
    found = GPU_TABLE.find("A100-80GB")
    assert found is not None
    assert (found.product, found.memory_gib, found.bandwidth_gbs, found.autoconf) == ("A100-80GB", 80.0, 1935, "")
    smaller = GPU_TABLE.find("A100-40GB")
    assert smaller is not None
    assert smaller.memory_gib == 40.0


def test_a_short_name_of_several_sizes_needs_its_memory() -> None:
    for name in ("A100", "H100", "V100", "NVIDIA-A100", "h100"):
        assert GPU_TABLE.find(name) is None
    assert GPU_TABLE.closest("H100")[:3] == ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL")
    found = GPU_TABLE.find("A100", memory_gib=80)
    assert found is not None
    assert found.memory_gib == 80.0
    assert GPU_TABLE.find("A100", memory_gib=60) is None
    nvl = GPU_TABLE.find("H100", memory_gib=94)
    assert nvl is not None
    assert nvl.product == "NVIDIA-H100-NVL"


@pytest.mark.parametrize(
    ("product", "memory_gib"),
    [
        ("A10G", 22.5),
        ("A100", 80),
        ("A100-80GB", 80),
        ("A100-40GB", 40),
        ("L40S", 44.99),
        ("NVIDIA-A100-80GB-PCIe", 80.0),
        ("NVIDIA-A100-SXM4-80GB", 80.0),
        ("RTX 4090", 24),
        ("RTX A6000", 48),
    ],
)
def test_cards_of_measured_runs_are_known(product: str, memory_gib: float) -> None:
    found = GPU_TABLE.find(product, memory_gib)
    assert found is not None
    assert found.memory_gib == pytest.approx(memory_gib, rel=0.01)


@pytest.mark.parametrize(
    ("written", "product", "gib"),
    [
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 39.25),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4.75),
        ("NVIDIA-H200-MIG-1g.18gb", "NVIDIA-H200-MIG-1g.18gb", 16.0),
        ("NVIDIA-H100-80GB-HBM3-MIG-7g.80gb", "NVIDIA-H100-80GB-HBM3-MIG-7g.80gb", 78.75),
        ("NVIDIA-B200-MIG-1g.23gb", "NVIDIA-B200-MIG-1g.23gb", 20.24),
        ("nvidia.com/mig-3g.40gb", "mig-3g.40gb", 39.25),
        ("mig-1g.10gb", "mig-1g.10gb", 9.5),
        ("nvidia.com/mig-1g.10gb.me", "mig-1g.10gb.me", 9.5),
        ("NVIDIA-A100-SXM4-80GB-MIG-1c.3g.40gb", "NVIDIA-A100-SXM4-80GB-MIG-1c.3g.40gb", 39.25),
        ("NVIDIA-A30-MIG-4g.24gb", "NVIDIA-A30-MIG-4g.24gb", 21.5),
    ],
)
def test_slices_are_cards_of_their_own(written: str, product: str, gib: float) -> None:
    found = GPU_TABLE.find(written)
    assert found is not None
    assert (found.product, found.memory_gib, found.autoconf) == (product, gib, "")
    assert GPU_TABLE.find(found.product) == found


def test_a_slice_has_its_share_of_compute() -> None:
    whole, part = GPU_TABLE.find("NVIDIA-A100-SXM4-80GB"), GPU_TABLE.find("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb")
    assert whole is not None
    assert part is not None
    assert part.tflops == pytest.approx(whole.tflops * 3 / 7)
    assert part.memory_gib < whole.memory_gib / 2
    small, all_of_it = GPU_TABLE.find("NVIDIA-A30"), GPU_TABLE.find("NVIDIA-A30-MIG-4g.24gb")
    assert small is not None
    assert all_of_it is not None
    assert all_of_it.tflops == small.tflops


@pytest.mark.parametrize(
    "written",
    ["", "toaster", "NVIDIA", "GPU", "80GB", "nvidia.com/gpu", "mig-9g.1gb", "TOASTER-MIG-1g.10gb", "-", "A" * 10_000],
)
def test_no_card_is_guessed(written: str) -> None:
    assert GPU_TABLE.find(written) is None


@given(st.text(max_size=60), st.none() | st.floats())
def test_no_name_raises(written: str, memory_gib: float | None) -> None:
    GPU_TABLE.find(written, memory_gib)
    assert len(GPU_TABLE.closest(written)) <= 5


@given(st.sampled_from(tuple(GPU_TABLE)), st.sampled_from(["", "-SHARED"]), st.booleans())
def test_every_product_finds_itself(gpu: Gpu, after: str, lower: bool) -> None:
    written = gpu.product + after
    assert GPU_TABLE.find(written.lower() if lower else written) == gpu


def test_every_row_is_sane() -> None:
    names = [name.lower() for row in GPU_TABLE.rows for name in (row.product, *row.aliases)]
    assert len(names) == len(set(names))
    assert len(tuple(GPU_TABLE)) >= 40
    for gpu in tuple(GPU_TABLE):
        assert 4 < gpu.memory_gib < 300
        assert 50 < gpu.tflops < 3000
        assert 200 < gpu.bandwidth_gbs <= 8000
        assert 0.1 <= gpu.price <= 6
        assert gpu.source
    assert {gpu.autoconf for gpu in tuple(GPU_TABLE)} == {
        *("", "L40S", "NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-PCIe")
    }
    assert {gpu.product for gpu in tuple(GPU_TABLE) if not gpu.bf16} == {
        gpu.product for gpu in tuple(GPU_TABLE) if gpu.product.startswith("Tesla")
    }


def inventory(*nodes: Node) -> Inventory:
    return Inventory(cluster="here", taken_at="2026-01-01T00:00:00Z", nodes=nodes)


def test_what_was_measured_wins_over_the_table() -> None:
    offered = GPU_TABLE.offered(
        inventory(
            Node(name="a", product="NVIDIA-H100-80GB-HBM3", gpus=8, memory_mib=81559),
            Node(name="b", product="NVIDIA-H100-80GB-HBM3", gpus=8, memory_mib=80000),
            Node(name="c", product="NVIDIA-L40S", gpus=4),
            Node(name="d", product="Prototype-X", gpus=4, memory_mib=102400),
            Node(name="e", product="AMD_Prototype", gpus=4, memory_mib=102400),
            Node(name="f", product="Prototype-Y", gpus=4),
            Node(name="g", product="NVIDIA-A30", gpus=0, memory_mib=24576),
            Node(name="h", product="NVIDIA-A40", gpus=8, memory_mib=46068, unschedulable=True),
            Node(name="i"),
        )
    )
    assert [(gpu.product, gpu.memory_gib) for gpu in offered] == [
        ("AMD_Prototype", 100.0),
        ("NVIDIA-H100-80GB-HBM3", 78.12),
        ("NVIDIA-L40S", 44.99),
        ("Prototype-X", 100.0),
    ]
    assert [gpu.vendor for gpu in offered] == [Vendor.AMD, Vendor.NVIDIA, Vendor.NVIDIA, Vendor.NVIDIA]
    assert [gpu.source for gpu in offered] == [
        "measured on node e",
        "measured on node b",
        "nvidia-smi",
        "measured on node d",
    ]
    assert offered[1].tflops > 900
    assert [(gpu.per_node, gpu.in_all) for gpu in offered] == [(4, 4), (8, 16), (4, 4), (4, 4)]


def test_the_memory_of_hosts_is_that_of_the_smallest_known_node() -> None:
    nodes = [
        Node(name=name, product="NVIDIA-L40S", gpus=4, allocatable_memory_gib=memory)
        for name, memory in (("a", 480), ("b", 0), ("c", 960))
    ]
    assert [gpu.host_gib for gpu in GPU_TABLE.offered(inventory(*nodes))] == [480]


def test_a_short_product_name_is_resolved_by_its_measured_memory() -> None:
    (gpu,) = GPU_TABLE.offered(inventory(Node(name="a", product="H100", gpus=8, memory_mib=95830)))
    assert (gpu.product, gpu.memory_gib, gpu.bandwidth_gbs) == ("H100", 93.58, 3938)


@given(
    st.lists(
        st.builds(
            Node,
            name=st.text(max_size=3),
            product=st.text(max_size=20) | st.sampled_from([gpu.product for gpu in tuple(GPU_TABLE)]),
            gpus=st.integers(-1, 16),
            memory_mib=st.integers(-1, 10**7),
            unschedulable=st.booleans(),
        ),
        max_size=8,
    )
)
def test_offers_are_products_of_nodes_once_each(nodes: list[Node]) -> None:
    offered = GPU_TABLE.offered(inventory(*nodes))
    products = [gpu.product for gpu in offered]
    assert products == sorted(set(products))
    assert set(products) <= {node.product for node in nodes}
    assert all(gpu.memory_gib >= 0 for gpu in offered)
    assert offered == GPU_TABLE.offered(inventory(*reversed(nodes)))


def test_the_nodes_of_a_cluster_are_read_once_for_all_jobs() -> None:
    """Each of thousands of jobs asks for what thousands of nodes offer."""
    first, second = (inventory(Node(name="a", product=name, gpus=8)) for name in ("H100", "L40S"))
    offered = GPU_TABLE.offered(first)
    assert GPU_TABLE.offered(first) is offered
    assert GPU_TABLE.offered(second) != offered
    assert GPU_TABLE.offered(first) == offered
