"""What an API server would say of an object, offline: unknown fields, types, enums, required, formats, quantities."""
