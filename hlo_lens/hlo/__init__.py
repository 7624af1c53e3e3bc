"""HLO modules: columns of instructions, views of them, and their edges."""
