"""What webhooks of custom kinds refuse of a new object, beside its schema, and what a server refuses of their pods."""
