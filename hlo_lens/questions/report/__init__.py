"""The first page of a program, and the HTML page."""
