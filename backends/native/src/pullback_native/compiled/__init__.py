"""Fused kernels compiled by the C compiler of the machine, where it has one.

A kernel that has run often is written as C (`source`), compiled in a thread (`worker`, `compiler`),
kept in the user's cache folder (`cache`), held against the loops (`comparison`), and taken in their
place. Whatever fails, the loops go on.
"""
