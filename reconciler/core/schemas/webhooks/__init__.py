"""What webhooks of custom kinds refuse of a new object, beside its schema."""
