"""Rules of built-in kinds that an API server has beside their schemas, by family."""
