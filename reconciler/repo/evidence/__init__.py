"""The observations of clusters in `evidence/`: nodes, finished runs, queues in use."""
