"""How much pre-training helps: the same architecture with and without it, beside what a sceptic would run."""
