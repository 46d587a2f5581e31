"""The first files of a repository: `init` makes one from the template, `new` writes a starter for one kind."""
