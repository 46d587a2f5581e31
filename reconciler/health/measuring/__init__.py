"""Tests of a node that need its cluster: claims of volumes, and bandwidth to other nodes."""
