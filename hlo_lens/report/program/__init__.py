"""Pages of one program, of the listing and of passes."""
