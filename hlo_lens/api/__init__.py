"""The Python API, one function per question: it loads dumps, runs passes and fills report pages."""
