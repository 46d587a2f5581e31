"""Sources of downloads, one module for each; a module imports the library of its source."""
