"""Questions about compiled programs, a room for each: facts, pages and command."""
