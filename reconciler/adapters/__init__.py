"""Everything outside, one module each; no other package opens files, sockets, processes or devices."""
