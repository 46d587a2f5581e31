"""External sizing engines behind the port `Predictor`: a child process, a script, a server.

`installed` runs the user's ado-autoconf in a child process (`autoconf_child`), `wrapper` runs a script and
`rest` calls a server. `batch` asks many questions. `recommender` is the interface of ado-autoconf's recommenders.
"""
