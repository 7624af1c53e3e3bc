"""Text with places in it, errors that point at them, and the kinds of dump files; knows no HLO."""
