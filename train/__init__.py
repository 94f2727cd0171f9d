"""How models learn and are compared, and the command line."""
