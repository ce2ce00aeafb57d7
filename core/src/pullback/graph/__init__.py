"""Graphs: recorded kernel calls as data, passes that simplify them, and code printed from them."""
