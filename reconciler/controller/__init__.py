"""`reconciler controller`: runs the use cases for several config repositories, all day."""
