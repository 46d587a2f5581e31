"""The checks, a file for each family. A check is a pure function, and a row that says all that others need to know."""
