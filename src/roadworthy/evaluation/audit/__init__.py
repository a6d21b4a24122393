"""Audits: whether a number of the main flow can be trusted, each on its own and on known answers."""
