"""The HTML page: one file with scripts, styles and data, opened offline.

A page is made of views. A view is two files of one name:

- ``views/NAME.py`` makes its data: ``ORDER`` (place among the views), ``KINDS`` (reports that have
  it: ``report``, ``diff``, ``check``), and ``view_data(subject, strings)``, which returns a JSON
  object, or None where the view has nothing to show. It reads results of `ModuleDump` and runs
  no pass.
- ``assets/scripts/views/NAME.js`` draws it: ``export const view = { name, title, command,
  howToRead, render }``. ``command(module, selection)`` returns the command that prints the same
  numbers; ``howToRead`` is a list of sentences; ``render(container, data, page)`` draws into an
  element. ``data`` is what ``view_data`` returned; ``page`` has ``selection`` (what is selected in
  all views, with ``get``, ``set`` and ``subscribe``), ``module`` (title, role, command, views),
  ``strings``, ``report`` (the object of ``-f json``), ``object`` (its part on the module, as
  ``hlo-lens report`` has it) and ``changes`` (the same of ``hlo-lens diff``).

Views are found by listing the two folders; nothing else names them. Scripts write names of dumps
as text nodes only (no ``innerHTML``), and colours never carry a meaning alone.

Files: ``page`` (modules with the data of their views) and ``document`` (the file; scripts of others
are in ``assets/vendored``, unchanged). Scripts and styles are allowed by their hashes in the
Content-Security-Policy, which forbids everything else, network included.
"""
