"""Columns of Arrow and NumPy, and lists: what every other room of the model computes with.

`compute.py` is pyarrow.compute, loaded with the first function that is used; `arrays.py` has the names of NumPy array
types; `batching.py` cuts what comes one by one into lists of a number or of a weight.

May import nothing of `moulin`. Import it as `from moulin.model.columns import compute as pc`, and name none of its
functions at the top level of a module: that would load Arrow's three hundred functions with it.
"""
