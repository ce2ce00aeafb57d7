"""Control flow: branches, loops and Python in a graph."""
