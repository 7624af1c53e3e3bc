"""Views of the page: each file has `VIEWS`; found by listing this folder."""
