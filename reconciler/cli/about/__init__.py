"""Commands about the program itself: its versions, schemas and shell completion. They need no repository."""
