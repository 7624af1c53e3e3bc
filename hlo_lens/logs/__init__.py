"""Messages in logs: out of memory, warnings, printed shardings.

`log.parse_log` finds messages by their first words (`text.log_words`); line rules of the grammars
read them (`messages.MessageRule`), Lark what is recursive (`shardings`). `page` prints them.

**Invariants.** No file of the room knows a dump: what a dump of the same compile tells is a record
(`page.DumpFacts`) that the room of the report makes. Reading never fails on a damaged message: it
returns what was read, and the gaps. A text is searched by plain words and by patterns that do not
backtrack across lines, so a line of megabytes costs no more than its length.
"""
