"""A store on a PostgreSQL server.

`PostgresDatabase` is a `Database` for the parts of a store. A call borrows one of the `Connections` of its store, begins a
transaction, does its work, commits, and gives the connection back. What PostgreSQL refuses because of others is done
again; a process lets the refused ones go on one at a time.

A transaction that writes learns its number as it begins. If its connection is lost at the commit, another connection
asks the server what became of this number, in `doubt`; only if that cannot be learned, the caller hears that
nobody knows.

`failures` says which errors pass and puts the others into words, and `counts` has the figures for `health()`. All of it
is loaded by the first store in PostgreSQL of the process, and psycopg with it.
"""
