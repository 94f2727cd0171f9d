"""The subcommands of `greffe`, a module each: arguments without heavy imports, then a call into the package."""
