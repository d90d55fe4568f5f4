"""A kernel family for tests: real files, no compiler."""
