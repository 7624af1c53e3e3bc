"""Views of the page: one file for the data of each, found by listing this folder."""
