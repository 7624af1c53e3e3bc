"""Programs compiled before and after changes, and the tables of what-if in the handbook."""
