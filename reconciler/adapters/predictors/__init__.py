"""Sizing engines outside, behind the port `Predictor`: a child process, a table, a script, a server.

`installed` keeps the user's ado-autoconf warm in a child process, `table` reads what `compiling` made of it, `wrapper`
runs a script, `rest` asks a server and `batch` asks many questions. `asked` is a question in ado-autoconf's words.
"""
