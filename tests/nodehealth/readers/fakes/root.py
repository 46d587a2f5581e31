"""The files of a node's kernel, below a folder."""

from pathlib import Path


def write_root(root: Path, *, gpus: int = 8) -> Path:
    """Write the files of a sound node with this many NVIDIA GPUs, and return the folder."""
    files = {
        "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
        "proc/uptime": "86400.00 1000.00",
        "proc/stat": "cpu 1\nbtime 1760000000",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06",
        "sys/module/nvidia/version": "580.65.06",
        "sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086",
        "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100",
        "proc/1/comm": "systemd",
        "proc/42/cgroup": "0::/kubepods.slice/pod1",
        "proc/700/comm": "kubelet",
        "proc/800/comm": "nv-fabricmanage",
        "proc/900/comm": "nvidia-persiste",
        "sys/devices/system/node/node0/cpulist": "0",
        "sys/devices/system/node/node1/cpulist": "1",
        "dev/kmsg": "",
    }
    for index in range(gpus):
        folder = f"sys/bus/pci/devices/0000:{0x10 + index:02x}:00.0"
        values = {
            "vendor": "0x10de", "class": "0x030200", "numa_node": str(index // 4),
            "current_link_width": "16", "max_link_width": "16",
            "current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
        }  # fmt: skip
        files |= {f"{folder}/{name}": text for name, text in values.items()}
    for number in range(2):
        folder = f"sys/class/infiniband/mlx5_{number}/ports/1"
        values = {
            "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
            "counters/link_downed": "0", "counters/symbol_error": "0",
        }  # fmt: skip
        files |= {f"{folder}/{name}": text for name, text in values.items()}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n" if text else "")
    (root / "dev/shm").mkdir()
    return root
