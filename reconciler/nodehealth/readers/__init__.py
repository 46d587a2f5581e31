"""Readings of this node: NVML in a child process, the kernel's log, sysfs and procfs, AMD SMI."""
