"""Rules, a file for each topic: `module_rule` registers one, and its docstring describes it."""
