"""The outside world, one module per thing; nothing else opens files, sockets, processes or devices."""
