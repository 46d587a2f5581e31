"""Measurements of the network between nodes: ping, and bandwidth by iperf3."""
