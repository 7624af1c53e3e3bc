"""Views of the page: each file has rows of `VIEWS`, found by listing this folder."""
