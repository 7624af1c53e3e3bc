"""The HTML page: one file with scripts, styles and data, opened offline.

A page is made of views. A view has two places:

- a row of ``VIEWS`` in a file of ``views/``: its name, place among the views, and the function
  ``(subject, strings)`` of its data, which returns a JSON object, or None where the view has
  nothing to show. It reads facts of modules and computes none of its own.
- ``assets/scripts/views/NAME.js`` draws it: ``export const view = { name, title, command, render
  }``. ``command(module, selection)`` returns the command that prints the same numbers;
  ``render(container, data, page)`` draws into an element; ``assets/how_to_read.md`` explains it.
  ``data`` is the JSON object; ``page`` has ``selection`` (what is selected in all views, with
  ``get``, ``set`` and ``subscribe``), ``module`` (title, role, command, views), ``strings``,
  ``report`` (the object of ``-f json``), ``object`` (its part on the module, as ``hlo-lens report``
  has it) and ``changes`` (the same of ``hlo-lens diff``).

Views are found by listing the two folders; nothing else names them. Scripts write names of dumps
as text nodes only (no ``innerHTML``), and colours never carry a meaning alone.

Files: ``data`` (modules with the data of their views), ``pages`` (of a report, a diff, a check) and
``document`` (the file; scripts of others are in ``assets/vendored``, unchanged). Its import map and
styles are allowed by their hashes in the Content-Security-Policy, the modules as ``data:``
addresses; everything else is forbidden, network included.
"""
