"""The command line: thin, a file for each group of commands."""
