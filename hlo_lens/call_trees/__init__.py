"""Call trees: traces that draw their calls, Python's own stacks, and the stacks of modules.

Begin with `tree.CallTree`, the one form of all of them; `tree.parse_call_trees` reads it from text,
`facts` computes from it, `page` prints.

Invariants: a tree is flat columns in preorder, and no function recurses, so that depth has no
limit. A tree knows no HLO: amounts of modules are added up before they get here.
"""
