"""Worker: compiles one HLO text for a target, without hardware, in any Python interpreter.

`__main__.py` is a script; no file here imports another part of hlo_lens. Uses names of jaxlib that
are not public and move between versions.
"""
