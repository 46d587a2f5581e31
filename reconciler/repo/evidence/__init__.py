"""What was observed on clusters and is kept in `evidence/`: nodes, finished runs, queues in use."""
