"""The offline gate: the regression set is asked of the next version, and a significant drop blocks it."""
