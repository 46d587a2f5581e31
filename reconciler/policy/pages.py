"""What rules say: tested examples, and reports for other tools."""
