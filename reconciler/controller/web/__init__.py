"""What the controller serves over HTTP: health, metrics, webhooks."""
