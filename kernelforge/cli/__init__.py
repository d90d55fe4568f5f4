"""The command line: one command, one file. Wires rooms together, reads the environment, prints."""
