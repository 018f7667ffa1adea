"""Maps with a name: which process has a map, and for each input its run and its result.

A process makes or finds the row of the map, claims it, and assigns a run to each input in the transaction that accepts the
run. The transaction that ends a run keeps its result. `forget_map` and the erasure of a user remove maps.
"""
